// SPDX-License-Identifier: Apache-2.0
// NVTX ranges as stages. A pushed range is a stage of its thread, the innermost one until something else begins in it,
// so that GPU work finds it by the ordinary way. A started range is a span: it may end anywhere and takes no part in a
// thread's nesting.
//
// Pops name a domain, so the range that ends need not be the innermost: it is taken out of the middle. A range that
// outlives the cutrace stage in which it was pushed is recorded to its end, but later GPU work does not belong to it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cutrace/marker/stage_write.hpp>
#include <cutrace/nvtx/attributes.hpp>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace nvtx CUTRACE_LOCAL {

/// An event that found no room counts as lost, like one that found no chunk. Owning thread.
inline void count_lost(detail::thread_state* t) noexcept {
  t->lost.store(t->lost.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Fills the identity of a stage named by `m`; its begin is the caller's to set, as late as possible.
inline void begin_frame(detail::thread_state* t, detail::stage_frame& f, domain& in, const message& m,
                        std::uint8_t flags) noexcept {
  if (m.site() != nullptr) {
    detail::begin_frame(t, f, detail::site_id(t, m.site()->site), request_form::none, 0, flags);
    if (CUTRACE_LIKELY(t->plain)) return;  // else the watchdog must see the stage while it runs
    f.begin = clock::ticks(t->use_counter);
    detail::open_frames(t, &f);
  } else {
    detail::begin_copying(t, f, detail::site_id(t, in.untitled.site), m.text(), nullptr, 0, 0, request_form::none,
                          static_cast<std::uint8_t>(flags | detail::flag_dynamic));
  }
}

inline void write_range(detail::thread_state* t, const detail::stage_frame& f, const extras& more, std::uint64_t end,
                        std::uint32_t origin) noexcept {
  if (!more.any()) return detail::write_stage(t, f, end, origin);
  detail::record* r = detail::reserve(t, 2);
  if (r == nullptr) return;
  detail::fill_stage(put_extras(r, more), f, end, origin);
  detail::commit(t, 2);
}

/// Ranges that a thread has pushed. Levels are counted while tracing is off, too: else a pop could end a range that it
/// does not belong to.
class pushed_ranges {
 public:
  static constexpr std::size_t limit = 256;  ///< open at once on a thread: bounds the memory if nothing is popped

  /// The calling thread's; nullptr when memory ran out.
  static pushed_ranges* of_thread() noexcept {
    if (own_ == nullptr) own_ = make();
    return own_;
  }

  /// Level of the new range in its domain. @throws std::bad_alloc
  int push(std::uint32_t in, const message& m, const event_attributes& a) {
    const int level = level_of(in)++;
    detail::thread_state* t = detail::this_thread();
    if (t == nullptr) return level;
    const extras more = read_extras(a, in, t);
    range* r = open_ < limit ? take() : nullptr;
    if (r == nullptr) {
      count_lost(t);
      return level;
    }
    r->more = more;
    r->state = t;
    r->in = in;
    r->level = level;
    begin_frame(t, r->frame, names::get().at(in), m, detail::flag_pushed);
    r->below = newest_;
    newest_ = r;
    t->top = &r->frame;
    r->frame.begin = clock::ticks(t->use_counter);
    return level;
  }

  /// Level of the range that ended, negative where none was open. @throws std::bad_alloc
  int pop(std::uint32_t in) {
    int& open = level_of(in);
    if (open == 0) return -1;
    --open;
    range** at = &newest_;
    while (*at != nullptr && (*at)->in != in) at = &(*at)->below;
    if (*at != nullptr && (*at)->level == open) end(at);
    return open;
  }

 private:
  struct range {
    detail::stage_frame frame;
    extras more;
    detail::thread_state* state;
    range* below;  ///< pushed before it and still open, in whichever domain
    std::uint32_t in;
    int level;
  };
  struct domain_level {
    std::uint32_t in;
    int open;
  };

  pushed_ranges() = default;
  /// The thread ends: so do the ranges that it has left open.
  ~pushed_ranges() {
    while (newest_ != nullptr) end(&newest_);
    while (spare_ != nullptr) {
      range* next = spare_->below;
      delete spare_;
      spare_ = next;
    }
  }

  static constexpr pthread_key_t no_key = ~pthread_key_t{0};

  CUTRACE_NOINLINE static pushed_ranges* make() noexcept {
    static const pthread_key_t key = [] {
      pthread_key_t k{};
      const int failed = pthread_key_create(&k, [](void* ranges) {
        own_ = nullptr;
        delete static_cast<pushed_ranges*>(ranges);
      });
      return failed == 0 ? k : no_key;
    }();
    pushed_ranges* made = new (std::nothrow) pushed_ranges();
    // Without a key, since the program has taken them all, its ranges stay open when a thread ends.
    if (made != nullptr && key != no_key) pthread_setspecific(key, made);
    return made;
  }

  int& level_of(std::uint32_t in) {
    for (domain_level& l : levels_)
      if (l.in == in) return l.open;
    levels_.push_back({in, 0});
    return levels_.back().open;
  }

  range* take() noexcept {
    range* r = spare_;
    if (r != nullptr)
      spare_ = r->below;
    else
      r = new (std::nothrow) range();
    if (r != nullptr) ++open_;
    return r;
  }

  void end(range** at) noexcept {
    range* r = *at;
    detail::thread_state* t = r->state;
    const std::uint64_t end = clock::ticks(t->use_counter);
    for (detail::stage_frame** f = &t->top; *f != nullptr; f = &(*f)->outer) {
      if (*f != &r->frame) continue;
      *f = r->frame.outer;
      break;
    }
    write_range(t, r->frame, r->more, end, 0);
    *at = r->below;
    r->below = spare_;
    spare_ = r;
    --open_;
  }

  static inline thread_local pushed_ranges* own_ = nullptr;

  range* newest_ = nullptr;
  range* spare_ = nullptr;
  std::size_t open_ = 0;
  std::vector<domain_level> levels_;
};

/// Ranges that were started and may end on any thread.
class started_ranges {
 public:
  /// The process's; never destroyed.
  static started_ranges& get() {
    static started_ranges* s = new started_ranges();
    return *s;
  }

  /// @throws std::bad_alloc
  range_id start(std::uint32_t in, const message& m, const event_attributes& a) {
    const range_id id = last_.fetch_add(1, std::memory_order_relaxed) + 1;
    detail::thread_state* t = detail::this_thread();
    if (t == nullptr) return id;
    range r{};
    r.more = read_extras(a, in, t);
    r.origin = t->index;
    begin_frame(t, r.frame, names::get().at(in), m, detail::flag_span);
    shard& s = shards_[id % shard_count];
    std::lock_guard<std::mutex> hold(s.mutex);
    if (s.open.size() >= limit / shard_count) {
      count_lost(t);
      return id;
    }
    r.frame.begin = clock::ticks(t->use_counter);
    s.open.emplace(id, r);
    return id;
  }

  void end(range_id id) {
    range r{};
    {
      shard& s = shards_[id % shard_count];
      std::lock_guard<std::mutex> hold(s.mutex);
      const auto found = s.open.find(id);
      if (found == s.open.end()) return;
      r = found->second;
      s.open.erase(found);
    }
    detail::thread_state* t = detail::this_thread();
    if (t == nullptr) t = detail::thread_while_off();
    if (t != nullptr) write_range(t, r.frame, r.more, clock::ticks(t->use_counter), r.origin);
  }

 private:
  struct range {
    detail::stage_frame frame;
    extras more;
    std::uint32_t origin;
  };
  static constexpr std::size_t shard_count = 16, limit = 65536;
  struct alignas(64) shard {
    std::mutex mutex;
    std::unordered_map<range_id, range> open;
  };
  started_ranges() = default;

  std::atomic<range_id> last_{0};
  shard shards_[shard_count];
};

/// A mark, in the stage that is open on this thread.
inline void write_mark(std::uint32_t in, const message& m, const event_attributes& a) {
  detail::thread_state* t = detail::this_thread();
  if (t == nullptr) return;
  const extras more = read_extras(a, in, t);
  const bool named = m.site() != nullptr;
  const std::uint32_t site = detail::site_id(t, named ? m.site()->site : names::get().at(in).untitled.site);
  const std::size_t size = named ? 0 : __builtin_strlen(m.text());
  const std::uint32_t records = (named ? 0 : detail::text_records(size)) + (more.any() ? 1 : 0) + 1;
  detail::record* r = detail::reserve(t, records);
  if (r == nullptr) return;
  if (!named) r = detail::put_text(r, 0, m.text(), size);
  if (more.any()) r = put_extras(r, more);
  const std::uint64_t now = clock::ticks(t->use_counter);
  const std::uint8_t flags = named ? 0 : detail::flag_dynamic;
  *r = {detail::make_head(detail::record_type::mark, flags, request_form::none, 0, site),
        now,
        now,
        0,
        detail::current_id(t),
        0,
        0,
        0};
  if (const detail::stage_frame* f = t->top) {  // it serves the requests of the stage around it
    r->head |= f->head & detail::head_form_mask;
    r->a = f->request;
    r->c = f->naming_stage;
  }
  detail::commit(t, records);
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
