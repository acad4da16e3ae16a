// SPDX-License-Identifier: Apache-2.0
// The event writer that backends get: calls and GPU work as records in the calling thread's chunk, activity buffers by
// pointer through a lock-free queue of fixed capacity.
#pragma once

#include <boost/lockfree/queue.hpp>
#include <cstring>
#include <cutrace/backend.hpp>
#include <cutrace/collect/gpu_record.hpp>
#include <cutrace/collect/runtime_core.hpp>
#include <cutrace/marker/stage_write.hpp>
#include <functional>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class record_writer final : public event_writer {
 public:
  /// A thousand threads may each have a buffer returned by one flush.
  static constexpr std::size_t buffer_capacity = 4096;

  explicit record_writer(runtime_core& core) : core_(core), buffers_(buffer_capacity) {}
  void set_in_windows(bool yes) noexcept { in_windows_ = yes; }
  /// Sets what request_poll calls; an empty function: it does nothing.
  void set_poll(std::function<void()> poll) {
    const std::lock_guard<std::mutex> hold(poll_mutex_);
    poll_ = std::move(poll);
  }
  void set_buffer_budget(std::size_t bytes) noexcept { buffer_budget_ = bytes; }

  std::uint64_t ticks() const noexcept override { return clock::ticks(core_.scale.use_counter); }
  std::uint64_t raw_ns(std::uint64_t t) const noexcept override { return core_.scale.to_ns(t); }

  tick_scale scale() const noexcept override { return core_.scale; }

  void name_function(std::uint32_t id, bool runtime_api, const function_info& info) noexcept override {
    try {
      core_.functions.add(id, runtime_api, info);
    } catch (...) {  // out of memory: the function stays unnamed
    }
  }
  void name_result(bool runtime_api, std::int32_t code, const char* name) noexcept override {
    try {
      core_.functions.add_result(runtime_api, code, name);
    } catch (...) {
    }
  }

  std::uint64_t enter(std::uint32_t function, std::uint32_t correlation, std::uint64_t begin_ticks,
                      bool makes_gpu_work) noexcept override {
    const std::atomic<std::uint32_t>& gate = own_slot().gate;  // core_.gate changes a little earlier
    const bool open = gate.load(std::memory_order_relaxed) != gate_off;
    thread_state* t = this_thread();
    if (CUTRACE_UNLIKELY(t == nullptr)) {
      // The gate was open before and is open now: no memory for the state of this thread. Else it has just been opened
      // or closed.
      if (open && gate.load(std::memory_order_acquire) != gate_off) {
        count_loss(loss_cause::chunk_full, 1);
        if (makes_gpu_work) core_.ring.put(correlation, 0, begin_ticks, 0, function);
        return api_call::not_recorded;
      }
      // Paused. What such a call makes the GPU do is to be left out as well.
      if (makes_gpu_work) core_.ring.put(correlation, api_call::not_recorded, begin_ticks, 0, function);
      return api_call::not_recorded;
    }
    const std::uint64_t stage = current_stage(t);
    if (makes_gpu_work) core_.ring.put(correlation, stage, begin_ticks, t->index, function);
    known(t).enter_call(function, begin_ticks, stage);
    return stage;
  }

  void exit(const api_call& c) noexcept override {
    thread_state* t = tls_state;  // set at the call's begin; the gate may have closed since
    if (t == nullptr || c.stage == api_call::not_recorded) return;
    write_call(t, c);
    known(t).leave_call();
  }

  /// As begin_call, where nothing rare is needed; else false, and nothing has been done. Calls no function.
  CUTRACE_INLINE bool begin_call_quickly(std::uint32_t function, std::uint32_t correlation, bool makes_gpu_work,
                                         std::uint64_t& begin_ticks) noexcept {
    if (CUTRACE_UNLIKELY(own_slot().gate.load(std::memory_order_relaxed) != gate_on)) return false;
    thread_state* const t = tls_state;
    if (CUTRACE_UNLIKELY(t == nullptr || !t->use_counter)) return false;
    std::uint64_t stage = 0;
    if (const stage_frame* f = t->top) {
      if (CUTRACE_UNLIKELY(!f->announced_in(t->trace_number.load(std::memory_order_relaxed)))) return false;
      stage = f->id;
    }
    const std::uint64_t begin = clock::counter();
    if (makes_gpu_work && CUTRACE_UNLIKELY(!core_.ring.put_near(correlation, stage, begin, t->index, function)))
      return false;
    known(t).enter_call(function, begin, stage);
    begin_ticks = begin;
    return true;
  }
  /// As end_call, where nothing rare is needed; else false, and nothing has been done. Calls no function. The call has
  /// succeeded and has up to four argument words: word(0) to word(3), of which `c.word_count` are used.
  template <class Word>
  CUTRACE_INLINE bool end_call_quickly(api_call& c, Word word) noexcept {
    thread_state* const t = tls_state;
    if (CUTRACE_UNLIKELY(t == nullptr || !t->use_counter)) return false;
    record* r = t->cursor;
    if (CUTRACE_UNLIKELY(t->limit - r < 2)) return false;
    c.end_ticks = clock::counter();
    prepare_write(r + 8);
    if (CUTRACE_UNLIKELY(c.word_count > 3)) {
      words_record* const more = ::new (static_cast<void*>(r)) words_record;
      more->type = record_type::words;
      more->size = 1;
      more->enclosing = 0;
      more->words[0] = word(3);
      t->cursor = ++r;  // the collector sees both at once, by `commit`
      ++t->count;
    }
    put_call(r, t, c);
    r->a = word(0);
    r->b = word(1);
    r->c = word(2);
    commit(t, 1);
    known(t).leave_call();
    return true;
  }

  void context_lost(const lost_context& by) noexcept override {
    if (!core_.forked.load(std::memory_order_relaxed) && !inside_runtime())
      core_.fault.hold(by, raw_ns(by.at_ticks), [this] { request_poll(); });
  }
  void work_begins() noexcept override { core_.wake.signal_if_resting(); }
  void flush_begins() noexcept override { core_.fault.flush_begins(core_.scale.now_ns()); }
  void flushed() noexcept override { core_.fault.flushed(core_.scale.now_ns()); }
  void flushed_after_fault() noexcept override {
    core_.fault.records_came();
    core_.wake.signal();
  }

  void gpu(const gpu_work& w) noexcept override {
    thread_state* t = this_thread();
    if (t == nullptr) return;
    const std::uint32_t id =
        w.name != nullptr ? core_.sites.add(site_table::name_only, w.name, std::strlen(w.name), nullptr, 0) : 0;
    record* r = reserve(t, gpu_records);
    if (r == nullptr) return;
    encode_gpu(w, id, r);
    commit(t, gpu_records);
  }

  void graph(const graph_change& c) noexcept override {
    const bool adds = c.what == graph_change::action::node_added;
    // A program without stages shall not pay for each of its nodes.
    if (!adds && !core_.stages_captured.load(std::memory_order_relaxed)) return;
    // Copies and updates count while the gate is shut, too: replays that are recorded later refer to them.
    thread_state* t = adds ? this_thread() : thread_while_off();
    if (t == nullptr) return;
    std::uint64_t stage = 0;
    if (adds) {
      stage = current_stage(t);
      if (stage == 0) return;  // nothing to remember
      core_.stages_captured.store(true, std::memory_order_relaxed);
    }
    record* r = reserve(t, 1);
    if (r == nullptr) return;
    *r = record{make_head(record_type::graph, 0, request_form::none, static_cast<std::uint8_t>(c.what), 0),
                ticks(),
                0,
                c.node,
                stage,
                c.from,
                0,
                0};
    commit(t, 1);
  }

  bool submit(const activity_buffer& b) noexcept override {
    const bool taken = buffers_.bounded_push(b);
    if (taken) core_.wake.signal_if_asleep();
    return taken;
  }

  void describe(const event& e) noexcept override {
    try {
      std::lock_guard<std::mutex> hold(mutex_);
      if (descriptions_.size() < description_limit) descriptions_.push_back(copy(e));
    } catch (...) {  // out of memory: a description less
    }
  }

  void count_loss(loss_cause cause, std::uint64_t n) noexcept override {
    core_.lost[static_cast<std::size_t>(cause)].fetch_add(n, std::memory_order_relaxed);
  }
  void offer(twin_chooser chooser) noexcept override { core_.twins.store(chooser, std::memory_order_release); }
  void offer(const activity_buffers* buffers) noexcept override {
    const std::lock_guard<std::mutex> hold(held_mutex_);
    held_ = buffers;
  }
  std::uint32_t thread_number() const noexcept override {
    const thread_state* t = tls_state;
    return t != nullptr ? t->index : activity_buffers::any;
  }
  void request_poll() noexcept override {
    const std::unique_lock<std::mutex> hold(poll_mutex_, std::try_to_lock);
    if (hold.owns_lock() && poll_) poll_();
  }
  bool in_windows() const noexcept override { return in_windows_; }
  std::size_t buffer_budget_bytes() const noexcept override { return buffer_budget_; }
  std::uint32_t overflow_wait_us() const noexcept override {
    return core_.overflow_wait_us.load(std::memory_order_relaxed);
  }
  void report(const char* component, const char* message) noexcept override { core_.errors.report(component, message); }
  void note(const char* component, const char* message) noexcept override {
    core_.errors.report(component, message, false);
  }

  /// Collector's side.
  void drop_buffers() noexcept {
    activity_buffer stale;
    while (next_buffer(stale)) stale.release(stale);
    std::lock_guard<std::mutex> hold(mutex_);
    descriptions_.clear();
  }
  bool next_buffer(activity_buffer& out) noexcept { return buffers_.pop(out); }
  /// Calls `use(activity_buffers)` of those that the backend has, if it has any.
  template <class Use>
  void with_held(Use use) const {
    const std::lock_guard<std::mutex> hold(held_mutex_);
    if (held_ != nullptr) use(*held_);
  }
  /// Calls `take(event&)` for each description since the last call; the name is valid only during `take`.
  template <class Take>
  void take_descriptions(Take take) {
    std::vector<described> now;
    {
      std::lock_guard<std::mutex> hold(mutex_);
      now.swap(descriptions_);
    }
    for (described& d : now) {
      d.what.name = {d.name.data(), static_cast<std::uint32_t>(d.name.size())};
      take(d.what);
    }
  }

 private:
  struct described {
    event what;
    std::string name;
  };
  /// All thread states come from this runtime, so each is a traced_thread.
  static traced_thread& known(thread_state* t) noexcept { return *static_cast<traced_thread*>(t); }

  static constexpr std::size_t description_limit = 65536;
  static described copy(const event& e) { return {e, std::string(e.name.data, e.name.size)}; }

  static void write_call(thread_state* t, const api_call& c) noexcept {
    const std::uint32_t count = c.word_count < 10 ? c.word_count : 10;
    const std::uint32_t records = count > 3 || CUTRACE_UNLIKELY(c.enclosing != 0) ? 2 : 1;
    record* r = reserve(t, records);
    if (r == nullptr) return;
    if (records == 2) {
      const std::uint32_t rest = count > 3 ? count - 3 : 0;
      // Word by word and in place: a copy of what has just been stored in other sizes would wait for these stores.
      words_record* more = ::new (static_cast<void*>(r)) words_record;
      more->type = record_type::words;
      more->size = static_cast<std::uint8_t>(rest);
      more->enclosing = c.enclosing;
      for (std::uint32_t i = 0; i < rest; ++i) more->words[i] = c.words[i + 3];
      ++r;
    }
    put_call(r, t, c);
    r->a = count > 0 ? c.words[0] : 0;
    r->b = count > 1 ? c.words[1] : 0;
    r->c = count > 2 ? c.words[2] : 0;
    commit(t, records);
  }
  /// All but the first argument words.
  CUTRACE_INLINE static void put_call(record* r, const thread_state* t, const api_call& c) noexcept {
    const std::uint8_t flags =
        static_cast<std::uint8_t>((c.runtime_api ? flag_runtime : 0) | (c.result != 0 ? flag_failed : 0));
    const std::uint8_t count = static_cast<std::uint8_t>(c.word_count < 10 ? c.word_count : 10);
    r->head = make_api_head(flags, count, c.function, c.runtime_function, c.context);
    r->begin = c.begin_ticks;
    r->end = c.end_ticks;
    r->id = c.correlation | static_cast<std::uint64_t>(static_cast<std::uint32_t>(c.result)) << 32;
    r->parent = c.stage == api_call::stage_of_thread ? current_id(t) : c.stage;
  }

  runtime_core& core_;
  boost::lockfree::queue<activity_buffer, boost::lockfree::allocator<node_memory<activity_buffer>>> buffers_;
  std::mutex mutex_;
  std::vector<described> descriptions_;
  mutable std::mutex held_mutex_;
  const activity_buffers* held_ = nullptr;
  std::mutex poll_mutex_;
  std::function<void()> poll_;
  bool in_windows_ = false;
  std::size_t buffer_budget_ = std::size_t{11} << 20;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
