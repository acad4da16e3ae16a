// SPDX-License-Identifier: Apache-2.0
// From records and backend events to pending events: names, stages, calls. Collector's thread only.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cutrace/collect/event_tables.hpp>
#include <cutrace/collect/gpu_record.hpp>
#include <cutrace/collect/order_window.hpp>
#include <cutrace/collect/reporter.hpp>
#include <cutrace/collect/watch/stream_order.hpp>
#include <cutrace/collect/watch/unfinished_work.hpp>
#include <cutrace/marker/record.hpp>
#include <cutrace/marker/stage_write.hpp>
#include <cutrace/names.hpp>
#include <new>
#include <string>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

// What NVTX says of a range or mark beside name and time. Collector's thread only.

inline bool is_nvtx(const site_table::entry& site) noexcept {
  return site.kind == static_cast<std::uint8_t>(site_kind::nvtx);
}

/// `words`: of the record of the range or mark. Does nothing where the site is a marker's.
inline void keep_origin(stage_data& s, const site_table::entry& site, const std::vector<std::uint64_t>& words,
                        const site_table& sites) {
  if (!is_nvtx(site)) return;
  s.origin = stage_origin::nvtx;
  s.domain = site.file;
  if (words.size() < 3) return;
  s.payload = words[0];
  s.payload_kind = static_cast<argument_kind>(words[1] & 0xff);
  s.color = static_cast<std::uint32_t>(words[1] >> 32);
  s.category = static_cast<std::uint32_t>(words[2]);
  if (const std::uint32_t named = static_cast<std::uint32_t>(words[2] >> 32)) s.category_name = sites.at(named).name;
}

/// The line for the notes. `result_name` may be empty.
inline void describe_lost_context(char (&line)[280], const char* call, text result_name, std::int32_t result) noexcept {
  std::snprintf(
      line, sizeof(line),
      "%.60s returned %.60s (%d), after which CUDA does no more work: GPU records of that time may be missing", call,
      result_name.size != 0 ? result_name.data : "a fatal error", static_cast<int>(result));
}

// What stands in a chunk before the record that it belongs to: texts and words. Collector's thread only.

struct record_parts {
  std::string name, request;
  bool has_name = false, has_request = false;  ///< whether there was one, be it empty
  std::vector<std::uint64_t> words;
  std::uint32_t enclosing = 0;

  void read_text(const record& r) {
    text_record piece;
    std::memcpy(&piece, &r, sizeof(piece));
    (piece.slot == 0 ? name : request).append(piece.bytes, piece.size);
    (piece.slot == 0 ? has_name : has_request) = true;
    any_ = true;
  }
  void read_words(const record& r) {
    words_record piece;
    std::memcpy(&piece, &r, sizeof(piece));
    words.insert(words.end(), piece.words, piece.words + piece.size);
    enclosing = piece.enclosing;
    any_ = true;
  }
  void resize_words(std::size_t count) {
    words.resize(count);
    any_ = true;
  }
  void clear() noexcept {
    if (!any_) return;  // most records come alone
    any_ = false;
    name.clear();
    request.clear();
    has_name = has_request = false;
    words.clear();
    enclosing = 0;
  }

 private:
  bool any_ = false;  ///< something stands here
};

class ingest {
 public:
  static constexpr std::uint32_t function_runtime_bit = 1u << 31;
  /// All three must outlive the ingest.
  ingest(event_tables& tables, order_window& window, reporter& errors)
      : tables_(tables), window_(window), errors_(errors) {}

  /// Reads committed records [first, last) of a chunk. A record and its texts and words are always in one chunk.
  void read(const traced_thread& t, const record* first, const record* last) {
    tables_.set_thread(t.index, t.thread_id);
    const record* r = first;
    while (r != last) {
      try {
        for (; r != last; ++r) {
          begin_one();
          read_record(t, *r);
        }
      } catch (const std::bad_alloc&) {
        end_failed(r->type() == record_type::stage || r->type() == record_type::mark || r->type() == record_type::api);
        parts_.clear();
        ++r;
      }
    }
  }

  /// Events for which there was no memory since the last call. produced() counts them.
  std::uint64_t take_failed() noexcept { return std::exchange(failed_, 0); }

  /// Takes an event of a backend, with times in the raw frame (clock.hpp), and joins it to its call.
  void take(const event& e) {
    attempt([&] { take_one(e); });
  }

  /// Runs `take` for one event, which counts as lost where memory runs out.
  template <class Take>
  void attempt(Take take) {
    begin_one();
    try {
      take();
    } catch (const std::bad_alloc&) {
      end_failed(true);
    }
  }

 private:
  /// An event is about to be taken.
  void begin_one() noexcept {
    produced_before_ = produced_;
    appended_before_ = window_.appended();
  }
  /// There was no memory for the event that was begun last. What stands in the window for it is delivered. If nothing
  /// stands there and `is_event`, one event is lost.
  CUTRACE_NOINLINE void end_failed(bool is_event) noexcept {
    const std::uint64_t appended = window_.appended() - appended_before_;
    failed_ += is_event && appended == 0;
    produced_ = produced_before_ + (is_event && appended == 0 ? 1 : appended);
  }

  void take_one(const event& e) {
    // Work from before this trace, which CUPTI hands over late, is no part of it.
    if (e.is_gpu_work() && e.end_ns != 0 && e.end_ns < start_ns_.load(std::memory_order_relaxed)) return;
    if (CUTRACE_UNLIKELY(e.incomplete)) return take_unfinished(e);
    if (e.start_ns == 0 && e.end_ns == 0) return take_timeless(e);
    if (CUTRACE_UNLIKELY(!unfinished_.empty())) finish_before(e);
    take_joined(e);
  }

 public:
  /// The trace ends at `now_ns` (raw), and with it all that is unfinished.
  CUTRACE_NOINLINE void end_unfinished(std::int64_t now_ns) {
    unfinished_.close_all(now_ns, [this](const unfinished_work::entry& one, std::int64_t at) { finish(one, at); });
  }
  /// Delivers each piece of unfinished work once, as unfinished until `now_ns`, in case a signal ends the process.
  CUTRACE_NOINLINE void deliver_unfinished(std::int64_t now_ns) {
    unfinished_.deliver_waiting([&](const unfinished_work::entry& one) { deliver_unfinished(one, now_ns); });
  }
  const unfinished_work& unfinished() const noexcept { return unfinished_; }
  /// The calls issued on each stream.
  stream_order& order() noexcept { return order_; }
  const stream_order& order() const noexcept { return order_; }
  /// For the files: the program has the error itself, but readers of the trace must know why records are missing. Once.
  CUTRACE_NOINLINE void note_lost_context(const known_function* f, bool runtime, std::int32_t result) {
    if (lost_context_noted_) return;
    lost_context_noted_ = true;
    char line[280];
    describe_lost_context(line, event_tables::name_of(f).data, tables_.functions.result(runtime, result), result);
    errors_.report("session", line, false);
  }
  /// An event that is joined to its call already.
  void take_complete(const pending_event& e) {
    window_.append(e.start_ns, e.end_ns) = e;
    ++produced_;
  }
  /// Bytes that unfinished work may take; beyond the limit each piece of work is delivered at once.
  void set_unfinished_limit(std::size_t bytes) noexcept { unfinished_limit_ = bytes; }

  /// Raw time at which the trace began: GPU work that ended before it is left out. Any thread.
  void set_start(std::uint64_t raw_ns) noexcept {
    start_ns_.store(static_cast<std::int64_t>(raw_ns), std::memory_order_relaxed);
  }

  std::uint64_t produced() const noexcept { return produced_; }
  void add_produced(std::uint64_t n) noexcept { produced_ += n; }
  std::uint64_t gpu_records() const noexcept { return gpu_records_; }
  std::uint64_t launches() const noexcept { return launches_; }
  /// End of the call that was read last of those that made GPU work; raw frame.
  std::int64_t last_launch_ns() const noexcept { return last_launch_ns_; }

 private:
  CUTRACE_INLINE void read_record(const traced_thread& t, const record& r) {
    switch (r.type()) {
      case record_type::text:
        return parts_.read_text(r);
      case record_type::requests:
      case record_type::words:
        return parts_.read_words(r);
      case record_type::stage_open:
        open_stage(r);
        break;
      case record_type::stage:
        end_stage(t, r);
        break;
      case record_type::mark:
        take_mark(t, r);
        break;
      case record_type::api:
        take_call(t, r);
        break;
      case record_type::gpu:
        take_gpu(r);
        break;
      case record_type::graph:
        take_graph(r);
        break;
      default:
        break;
    }
    parts_.clear();
  }

  text name_of(const record& r) {
    if (!r.has(flag_dynamic)) return tables_.sites.at(r.site()).name;
    if (!parts_.has_name) return event_tables::name_lost;  // reported to an earlier trace, in which the stage began
    if (parts_.name.empty()) return site_table::unnamed;
    return tables_.strings.intern_dynamic(parts_.name.data(), parts_.name.size());
  }

  void keep_requests(known_stage& s, const record& r) {
    if (CUTRACE_UNLIKELY(parts_.words.size() > request_limit)) parts_.words.resize(request_limit);
    tables_.stages.keep_requests(s, r.form(), r.a, parts_.words, parts_.has_request ? &parts_.request : nullptr);
  }

  void open_stage(const record& r) {
    bool entered = false;
    known_stage* s = tables_.stages.open(r.id, entered);
    if (s == nullptr) return;
    const bool adopted = r.has(flag_adopted);
    if (entered || !adopted) {  // an adopting thread does not know the texts
      s->set_name(name_of(r));
      tables_.stages.set_naming_stage(*s, r.c);
      if (!adopted) tables_.stages.set_parent(*s, r.parent);
      s->word = r.a;
      s->form = r.form();
      s->closed = false;
      if (r.c == r.id) keep_requests(*s, r);
    }
    if (adopted) tables_.stages.adopt(*s, entered, raw_ns(r.begin));
  }

  CUTRACE_INLINE std::int64_t raw_ns(std::uint64_t ticks) const noexcept {
    return static_cast<std::int64_t>(tables_.scale.to_ns(ticks));
  }
  CUTRACE_INLINE pending_host& host_record(const traced_thread& t, const record& r, std::int64_t begin_ns,
                                           std::int64_t end_ns) {
    ++produced_;
    pending_host& p = window_.append_host(begin_ns, end_ns);
    p.keep(r, t.thread_id);
    return p;
  }
  /// A new event in the window, to be filled in there.
  pending_event& host_event(event_kind kind, const traced_thread& t, const record& r) {
    ++produced_;
    pending_event& p = window_.append(raw_ns(r.begin), raw_ns(r.end));
    p.kind = kind;
    p.process_id = tables_.process_id;
    p.thread_id = t.thread_id;
    return p;
  }

  void end_stage(const traced_thread& t, const record& r) {
    const bool named_here = r.has(flag_dynamic);
    const std::int64_t end_ns = raw_ns(r.end);
    if (CUTRACE_UNLIKELY(r.site() != 0 && is_nvtx(tables_.sites.at(r.site())))) {
      end_nvtx(t, r);
    } else {
      pending_host& p = host_record(t, r, raw_ns(r.begin), end_ns);
      p.at = {0, tables_.stages.place_of(r.c)};
      if (named_here) {
        const text name = name_of_instance(r.id);
        p.name = name.data;
        p.name_size_or_words_at = name.size;
      }
    }
    const bool opened = (r.b >> 16 & 0xffff) != 0;
    if (!opened) return;
    if (r.has(flag_adopted))
      tables_.stages.adopted_part_ended(r.id, end_ns);
    else
      tables_.stages.close(r.id, end_ns);
  }
  /// Name of a stage. No address where an adopted part is read before its stage: delivery looks it up again.
  text name_of_instance(std::uint64_t id) {
    const known_stage* s = tables_.stages.find(id);
    return s != nullptr ? s->name_text() : text{nullptr, 0};
  }
  CUTRACE_NOINLINE void end_nvtx(const traced_thread& t, const record& r) {
    pending_event& p = host_event(event_kind::stage, t, r);
    unpack_stage(r, p, p);
    const site_table::entry& site = tables_.sites.at(r.site());
    p.name = r.has(flag_dynamic) ? name_of_instance(r.id) : site.name;
    keep_origin(p.stage, site, parts_.words, tables_.sites);
  }

  void take_mark(const traced_thread& t, const record& r) {
    pending_event& p = host_event(event_kind::mark, t, r);
    p.name = name_of(r);
    if (r.site() != 0) keep_origin(p.stage, tables_.sites.at(r.site()), parts_.words, tables_.sites);
    p.stage_id = r.parent;
    p.request_word = r.a;
    p.naming_stage = r.c;
    p.form = r.form();
    if (r.form() >= request_form::text && r.id != 0) {  // its own text or batch: kept like a stage's
      bool entered = false;
      if (known_stage* s = tables_.stages.open(r.id, entered)) {
        s->form = r.form();
        keep_requests(*s, r);
        tables_.stages.close(r.id, p.end_ns);
      }
    }
  }

  std::uint64_t with_epoch(std::uint32_t id) const noexcept {
    return id | static_cast<std::uint64_t>(tables_.ring.epoch(id)) << 32;
  }

  /// A call of another process, which comes with the values of its arguments.
  CUTRACE_NOINLINE void take_foreign_call(pending_event& p, const event& e) {
    std::uint64_t words[10];
    const std::uint32_t count = std::min<std::uint32_t>(e.api.argument_count, 10);
    p.api.argument_count = 0;  // should there be no memory for them
    for (std::uint32_t i = 0; i < count; ++i) words[i] = e.api.arguments[i].value;
    complete_call(p, words, count);
    p.api.argument_count = count;
  }

  CUTRACE_INLINE void take_call(const traced_thread& t, const record& r) {
    const known_function* f = tables_.functions.find(function_of(r.site()), r.has(flag_runtime));
    const std::int32_t result = static_cast<std::int32_t>(r.id >> 32);
    if (CUTRACE_UNLIKELY(loses_context(result))) note_lost_context(f, r.has(flag_runtime), result);
    const std::int64_t begin_ns = raw_ns(r.begin), end_ns = raw_ns(r.end);
    pending_host& p = host_record(t, r, begin_ns, end_ns);
    p.at = {tables_.ring.epoch(static_cast<std::uint32_t>(r.id)), tables_.stages.place_of(r.parent)};
    if (f != nullptr && f->makes_gpu_work) {
      ++launches_;
      last_launch_ns_ = end_ns;
      // A call that failed has no records.
      if (result == 0) tables_.stages.note_call(p.at.stage_place, r.parent, t.index, end_ns);
    }
    if (f != nullptr && f->use.what != stream_use::role::none) note_order(t, r, *f, p.at.stage_place, begin_ns);
    p.name_size_or_words_at = 0;
    if (r.count() <= 3 && CUTRACE_LIKELY(parts_.enclosing == 0)) return;
    parts_.resize_words(r.count() > 3 ? std::min<std::size_t>(r.count(), 10) - 3 : 0);
    if (CUTRACE_UNLIKELY(parts_.enclosing != 0)) {
      p.at.epoch |= pending_host::is_enclosed;
      parts_.words.push_back(with_epoch(parts_.enclosing));
    }
    p.name_size_or_words_at = window_.add_words(parts_.words.data(), parts_.words.size());
  }

  /// What the call does to the order of its stream.
  void note_order(const traced_thread& t, const record& r, const known_function& f, std::uint32_t stage_place,
                  std::int64_t begin_ns) {
    const auto word = [&](int i) {
      const std::size_t at = static_cast<std::size_t>(i);
      if (i < 0 || at >= r.count()) return std::uint64_t{0};
      if (i < 3) return i == 0 ? r.a : i == 1 ? r.b : r.c;
      return at - 3 < parts_.words.size() ? parts_.words[at - 3] : 0;
    };
    using role = stream_use::role;
    const bool succeeded = static_cast<std::int32_t>(r.id >> 32) == 0;
    // A copy or set of 0 bytes does nothing and leaves no record. After a failure 0 may stand for what is not known.
    if (f.use.bytes_word >= 0 && f.use.bytes_word < r.count() && succeeded && word(f.use.bytes_word) == 0) return;
    issued_call& c = order_.add();
    c.correlation = static_cast<std::uint32_t>(r.id);
    c.thread = t.index;
    c.function = static_cast<std::uint16_t>(function_of(r.site()));
    c.what = f.use.what;
    c.succeeded = succeeded;
    c.waits = f.use.waits;
    c.stage = r.parent;
    c.stage_place = stage_place;
    c.begin_ns = begin_ns;
    c.handle = word(f.use.event_word);
    if (c.what == role::wait_value) {
      c.handle = word(1);
      c.value = word(2);
      c.flags = static_cast<std::uint32_t>(word(3));
    } else if (c.what == role::stream_created) {
      c.flags = static_cast<std::uint32_t>(word(f.use.flags_word));
    }
    if (c.what == role::wait_event || c.what == role::wait_value || c.what == role::host_function) {
      c.holds_stage = true;  // nothing else keeps the stage until the wait is over
      tables_.stages.hold(stage_place, r.parent);
    }
    order_.take(word(f.use.stream_word), context_of(r.head), f.use.per_thread);
  }

  /// Adds what is known of the call's function, and the values of the arguments.
  void complete_call(pending_event& p, const std::uint64_t* words, std::uint32_t count) {
    const known_function* f = tables_.functions.find(p.api.function, p.api.runtime_api);
    p.name = event_tables::name_of(f);
    if (f != nullptr) {
      p.api.direction = f->direction;
      const std::size_t bytes = static_cast<std::size_t>(f->bytes_parameter);
      if (f->bytes_parameter >= 0 && bytes < count) p.api.bytes = words[bytes];
      if (f->makes_gpu_work) ++launches_;
    }
    p.api.result_name = tables_.functions.result(p.api.runtime_api, p.api.result);
    if (CUTRACE_UNLIKELY(loses_context(p.api.result))) note_lost_context(f, p.api.runtime_api, p.api.result);
    p.words_at = window_.add_words(words, count);
  }

  void take_gpu(const record& r) {
    if (parts_.words.size() < 7) return;
    std::uint64_t words[7];
    std::copy(parts_.words.begin(), parts_.words.begin() + 7, words);
    const bool ns = r.has(flag_ns_times);
    event e;
    e.start_ns = static_cast<std::int64_t>(ns ? r.begin : tables_.scale.to_ns(r.begin));
    e.end_ns = static_cast<std::int64_t>(ns ? r.end : tables_.scale.to_ns(r.end));
    decode_gpu(r, words, e);
    if (r.site() != 0) {
      e.name = tables_.sites.at(r.site()).name;
    } else if (e.kind == event_kind::sync) {
      const char* const name = name_of_wait(e.sync.what);
      e.name = tables_.strings.intern(name, std::strlen(name));
    }
    if (e.kind == event_kind::kernel) {
      e.kernel.mangled_name = e.name;
      e.name = tables_.strings.demangle(tables_.strings.intern(e.name.data, e.name.size));
    }
    if (CUTRACE_UNLIKELY(r.end == 0)) {
      e.start_ns = e.end_ns = 0;
      e.incomplete = true;
    }
    take(e);
  }

  void take_graph(const record& r) {
    switch (static_cast<graph_change::action>(r.count())) {
      case graph_change::action::node_added: {
        const known_stage* s = tables_.stages.find(r.parent);  // reported by the same thread, so before
        return tables_.graphs.added(r.id, r.parent, s != nullptr ? s->name_text() : event_tables::name_lost);
      }
      case graph_change::action::node_copied:
        return tables_.graphs.copied(r.id, r.a);
      case graph_change::action::updated:
        return tables_.graphs.updated(static_cast<std::uint32_t>(r.id >> 32), static_cast<std::uint32_t>(r.a >> 32),
                                      raw_ns(r.begin));
      case graph_change::action::gone:
        return tables_.graphs.gone(static_cast<std::uint32_t>(r.id >> 32));
    }
  }

  void take_joined(const event& e) {
    if (e.is_gpu_work() || e.kind == event_kind::sync) order_.ended(e);
    if (pending_work::holds(e)) return take_work(e);
    pending_event& p = window_.append(e.start_ns, e.end_ns);
    static_cast<event&>(p) = e;
    p.process_id = tables_.process_id;
    if (e.kind == event_kind::api) take_foreign_call(p, e);
    if (e.kind == event_kind::system) add_described(p, e);
    if (comes_from_call(p) && !join(p))
      window_.take_back();
    else
      ++produced_;
  }
  /// Arguments that bring their names along, no more than described_argument::limit.
  CUTRACE_NOINLINE void add_described(pending_event& p, const event& e) {
    p.system.argument_count = 0;  // should there be no memory for them
    const std::uint32_t count = std::min(e.system.argument_count, described_argument::limit);
    std::uint64_t words[described_argument::words * described_argument::limit];
    for (std::uint32_t i = 0; i < count; ++i)
      described_argument::put(e.system.arguments[i], words + described_argument::words * i);
    p.words_at = window_.add_words(words, described_argument::words * count);
    p.system.argument_count = count;
  }

  CUTRACE_INLINE void take_work(const event& e) {
    correlation_ring::call call{};
    attribution joined{};
    if (!find_call(e, joined, call)) return;
    pending_work& p = window_.append_work(e);
    p.keep(e);
    p.joined = joined;
    p.call_start_ns = e.start_ns;
    p.call_word = 0;
    p.call_function = pending_work::no_function;
    p.stage_place = stage_table::no_place;
    ++produced_;
    if (!is_found(joined)) return;
    p.call_word = pending_work::word_of_call(call.thread_index, call.epoch);
    p.stage_id = call.stage;
    p.stage_place = tables_.stages.place_of(call.stage);
    p.call_start_ns = raw_ns(call.begin_ticks);
    p.call_function =
        pending_work::function_word(call.function & ~function_runtime_bit, (call.function & function_runtime_bit) != 0);
  }

  static bool is_found(attribution a) noexcept { return correlation_ring::is_found(a); }
  /// Finds the launching call by correlation id, and through it thread and stage. Never guesses by time. False for work
  /// that was issued while tracing was paused: it is no part of the trace.
  CUTRACE_INLINE bool find_call(const event& e, attribution& joined, correlation_ring::call& call) {
    joined = tables_.ring.find(static_cast<std::uint32_t>(e.correlation_id), call);
    if (CUTRACE_UNLIKELY(joined == attribution::expired))
      joined = tables_.held_calls.find(static_cast<std::uint32_t>(e.correlation_id), call);
    if (is_found(joined) && call.stage == api_call::not_recorded) return false;
    if (e.is_gpu_work()) ++gpu_records_;
    return true;
  }
  bool join(pending_event& p) {
    correlation_ring::call call{};
    if (!find_call(p, p.joined, call)) return false;
    p.call_start_ns = p.start_ns;
    if (!is_found(p.joined)) return true;
    p.correlation_id |= std::uint64_t{call.epoch} << 32;
    p.stage_id = call.stage;
    p.call_start_ns = raw_ns(call.begin_ticks);
    p.call_thread = call.thread_index;
    p.call_name =
        tables_.functions.name_of(call.function & ~function_runtime_bit, (call.function & function_runtime_bit) != 0);
    return true;
  }

  /// A record without times (quality no_timestamp) is an instant at its call, else at its arrival: at 0 it would stand
  /// before the machine was started.
  CUTRACE_NOINLINE void take_timeless(const event& e) {
    pending_event p;
    static_cast<event&>(p) = e;
    p.process_id = tables_.process_id;
    if (comes_from_call(p) && !join(p)) return;
    if (!is_found(p.joined)) p.call_start_ns = static_cast<std::int64_t>(tables_.scale.now_ns());
    if (e.is_gpu_work()) order_.unfinished(e);
    p.start_ns = p.end_ns = p.call_start_ns;
    window_.append(p.start_ns, p.end_ns) = p;
    ++produced_;
  }

  /// Work that had no times yet when a flush returned it, and will get none.
  CUTRACE_NOINLINE void take_unfinished(const event& e) {
    unfinished_work::entry one{};
    one.seen_ns = static_cast<std::int64_t>(tables_.scale.now_ns());
    pending_event& p = one.work;
    static_cast<event&>(p) = e;
    p.process_id = tables_.process_id;
    if (comes_from_call(p) && !join(p)) return;
    if (!is_found(p.joined)) p.call_start_ns = one.seen_ns;
    order_.unfinished(e);
    p.start_ns = p.end_ns = p.call_start_ns;
    one.stage_place = tables_.stages.place_of(p.stage_id);
    tables_.stages.hold(one.stage_place, p.stage_id);
    ++produced_;
    if (unfinished_.bytes() < unfinished_limit_)
      unfinished_.add(one);
    else
      finish(one, one.seen_ns);
  }
  CUTRACE_NOINLINE void finish_before(const event& later) {
    unfinished_.close_before(later, [this](const unfinished_work::entry& one, std::int64_t at) { finish(one, at); });
  }
  /// The work had ended by `end_ns`: puts it into the window.
  void finish(const unfinished_work::entry& one, std::int64_t end_ns) {
    if (!one.delivered) deliver_unfinished(one, end_ns);
    tables_.stages.let_go(one.stage_place, one.work.stage_id);
  }
  void deliver_unfinished(const unfinished_work::entry& one, std::int64_t end_ns) {
    const std::int64_t end = std::max(end_ns, one.work.start_ns);
    pending_event& p = window_.append(one.work.start_ns, end);
    p = one.work;
    p.end_ns = end;
    ++appended_before_;  // produced_ counted it when it came
  }

  event_tables& tables_;
  order_window& window_;
  reporter& errors_;
  unfinished_work unfinished_;
  stream_order order_;
  std::size_t unfinished_limit_ = std::size_t{1} << 20;
  record_parts parts_;  ///< of the next record
  std::atomic<std::int64_t> start_ns_{0};
  std::uint64_t produced_ = 0, produced_before_ = 0, appended_before_ = 0, failed_ = 0;
  std::uint64_t gpu_records_ = 0;
  std::uint64_t launches_ = 0;
  std::int64_t last_launch_ns_ = 0;
  bool lost_context_noted_ = false;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
