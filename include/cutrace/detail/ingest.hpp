// SPDX-License-Identifier: Apache-2.0
// From records and backend events to pending events: names, stages, calls. Collector's thread only.
#pragma once

#include <algorithm>
#include <atomic>
#include <cutrace/detail/clock_map.hpp>
#include <cutrace/detail/correlation_ring.hpp>
#include <cutrace/detail/fatal_result.hpp>
#include <cutrace/detail/function_table.hpp>
#include <cutrace/detail/gpu_encode.hpp>
#include <cutrace/detail/graph_table.hpp>
#include <cutrace/detail/order_window.hpp>
#include <cutrace/detail/record_parts.hpp>
#include <cutrace/detail/reporter.hpp>
#include <cutrace/detail/site_table.hpp>
#include <cutrace/detail/stage_origin_data.hpp>
#include <cutrace/detail/stage_table.hpp>
#include <cutrace/detail/stage_write.hpp>
#include <cutrace/detail/string_table.hpp>
#include <cutrace/detail/thread_registry.hpp>
#include <cutrace/stats.hpp>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// What ingestion reads; all of it outlives the session.
struct ingest_sources {
  const tick_scale* scale;
  const site_table* sites;
  const function_table* functions;
  const correlation_ring* ring;
  graph_table* graphs;
  reporter* errors;
};

class ingest {
 public:
  static constexpr text name_lost{"(name lost)", 11};
  static constexpr std::uint32_t function_runtime_bit = 1u << 31;
  CUTRACE_NOINLINE ingest(const ingest_sources& from, std::size_t string_bytes, std::uint32_t process_id)
      : from_(from), strings_(string_bytes), process_id_(process_id) {
    thread_ids_.resize(thread_slots);
  }

  /// Reads committed records [first, last) of a chunk. Groups never span chunks.
  void read(const traced_thread& t, const record* first, const record* last) {
    thread_ids_[t.index % thread_slots] = {t.index, t.thread_id};
    for (const record* r = first; r != last; ++r) read_record(t, *r);
  }

  /// Of a call's function.
  static text name_of(const known_function* f) noexcept {
    return f != nullptr ? f->text_of_name() : text{"(unknown function)", 18};
  }

  /// What carries the correlation id of a call.
  static bool comes_from_call(const event& e) noexcept {
    return e.is_gpu_work() || e.kind == event_kind::sync || e.is_cuda_event();
  }

  /// A record of a backend, times in the raw frame, joined to its call.
  void take(const event& e) {
    // Work from before this trace, which CUPTI hands over late, is no part of it.
    if (e.is_gpu_work() && e.end_ns != 0 && e.end_ns < start_ns_.load(std::memory_order_relaxed)) return;
    if (e.start_ns == 0 && e.end_ns == 0) return take_timeless(e);
    take_joined(e);
  }

  /// The process that is traced.
  std::uint32_t process_id() const noexcept { return process_id_; }
  const function_table& functions() const noexcept { return *from_.functions; }
  const site_table::entry& site(std::uint32_t id) const noexcept { return from_.sites->at(id); }
  /// The kernel's number of a thread, 0 while no record of it has been read.
  std::uint32_t thread_id_of(std::uint32_t index) const noexcept {
    const thread_id& known = thread_ids_[index % thread_slots];
    return known.index == index ? known.kernel_id : 0;
  }

  /// Raw time at which the gate was opened first. Any thread.
  void set_start(std::uint64_t raw_ns) noexcept {
    start_ns_.store(static_cast<std::int64_t>(raw_ns), std::memory_order_relaxed);
  }

  order_window& window() noexcept { return window_; }
  string_table& strings() noexcept { return strings_; }
  const graph_table& graphs() const noexcept { return *from_.graphs; }
  stage_table& stages() noexcept { return stages_; }
  std::uint64_t produced() const noexcept { return produced_; }
  void add_produced(std::uint64_t n) noexcept { produced_ += n; }
  std::uint64_t gpu_records() const noexcept { return gpu_records_; }
  std::uint64_t launches() const noexcept { return launches_; }

 private:
  static constexpr std::size_t thread_slots = 1u << 14;

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
    if (!r.has(flag_dynamic)) return from_.sites->at(r.site()).name;
    if (!parts_.told_name) return name_lost;  // told to an earlier trace, in which the stage began
    return strings_.intern(parts_.name.data(), parts_.name.size());
  }

  void keep_requests(known_stage& s, const record& r) {
    stages_.keep_requests(s, r.form(), r.a, parts_.words, parts_.told_request ? &parts_.request : nullptr);
  }

  void open_stage(const record& r) {
    known_stage* s = stages_.open(r.id);
    if (s == nullptr) return;
    s->set_name(name_of(r));
    s->owner = r.c;
    s->owner_place = stages_.place_of(r.c);
    s->word = r.a;
    s->form = r.form();
    if (r.c == r.id) keep_requests(*s, r);
  }

  CUTRACE_INLINE pending_host& host_record(const traced_thread& t, const record& r) {
    ++produced_;
    pending_host& p = window_.append_host(static_cast<std::int64_t>(from_.scale->to_ns(r.begin)),
                                          static_cast<std::int64_t>(from_.scale->to_ns(r.end)));
    p.keep(r, t.thread_id);
    return p;
  }
  /// In the window already: it takes shape there.
  pending_event& host_event(event_kind kind, const traced_thread& t, const record& r) {
    ++produced_;
    pending_event& p = window_.append(static_cast<std::int64_t>(from_.scale->to_ns(r.begin)),
                                      static_cast<std::int64_t>(from_.scale->to_ns(r.end)));
    p.kind = kind;
    p.process_id = process_id_;
    p.thread_id = t.thread_id;
    return p;
  }

  void end_stage(const traced_thread& t, const record& r) {
    const bool named_here = r.has(flag_dynamic);
    if (CUTRACE_UNLIKELY(r.site() != 0 && is_nvtx(from_.sites->at(r.site())))) {
      end_nvtx(t, r);
    } else {
      pending_host& p = host_record(t, r);
      p.at = {0, stages_.place_of(r.c)};
      if (named_here) {
        const text name = name_of_instance(r.id);
        p.name = name.data;
        p.name_size_or_words_at = name.size;
      }
    }
    const bool opened = (r.b >> 16 & 0xffff) != 0;
    if (opened && !r.has(flag_adopted)) stages_.close(r.id);
  }
  /// No address: an adopted part that is read first; delivery asks again.
  text name_of_instance(std::uint64_t id) {
    const known_stage* s = stages_.find(id);
    return s != nullptr ? s->name_text() : text{nullptr, 0};
  }
  CUTRACE_NOINLINE void end_nvtx(const traced_thread& t, const record& r) {
    pending_event& p = host_event(event_kind::stage, t, r);
    show_stage(r, p, p);
    const site_table::entry& site = from_.sites->at(r.site());
    p.name = r.has(flag_dynamic) ? name_of_instance(r.id) : site.name;
    keep_origin(p.stage, site, parts_.words, *from_.sites);
  }

  void take_mark(const traced_thread& t, const record& r) {
    pending_event& p = host_event(event_kind::mark, t, r);
    p.name = name_of(r);
    if (r.site() != 0) keep_origin(p.stage, from_.sites->at(r.site()), parts_.words, *from_.sites);
    p.stage_id = r.parent;
    p.request_word = r.a;
    p.request_owner = r.c;
    p.form = r.form();
    if (r.form() >= request_form::text && r.id != 0) {  // its own text or batch: kept like a stage's
      if (known_stage* s = stages_.open(r.id)) {
        keep_requests(*s, r);
        stages_.close(r.id);
      }
    }
  }

  std::uint64_t with_epoch(std::uint32_t id) const noexcept {
    return id | static_cast<std::uint64_t>(from_.ring->epoch(id)) << 32;
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
    const known_function* f = from_.functions->find(function_of(r.site()), r.has(flag_runtime));
    if (f != nullptr && f->makes_gpu_work) ++launches_;
    const std::int32_t result = static_cast<std::int32_t>(r.id >> 32);
    if (CUTRACE_UNLIKELY(loses_context(result))) note_lost_context(f, r.has(flag_runtime), result);
    pending_host& p = host_record(t, r);
    p.at = {from_.ring->epoch(static_cast<std::uint32_t>(r.id)), stages_.place_of(r.parent)};
    p.name_size_or_words_at = 0;
    if (r.count() <= 3 && CUTRACE_LIKELY(parts_.enclosing == 0)) return;
    parts_.resize_words(r.count() > 3 ? std::min<std::size_t>(r.count(), 10) - 3 : 0);
    if (CUTRACE_UNLIKELY(parts_.enclosing != 0)) {
      p.at.epoch |= pending_host::is_enclosed;
      parts_.words.push_back(with_epoch(parts_.enclosing));
    }
    p.name_size_or_words_at = window_.add_words(parts_.words.data(), parts_.words.size());
  }

  /// What is known of its function, and the values of its arguments.
  void complete_call(pending_event& p, const std::uint64_t* words, std::uint32_t count) {
    const known_function* f = from_.functions->find(p.api.function, p.api.runtime_api);
    p.name = name_of(f);
    if (f != nullptr) {
      p.api.direction = f->direction;
      const std::size_t bytes = static_cast<std::size_t>(f->bytes_parameter);
      if (f->bytes_parameter >= 0 && bytes < count) p.api.bytes = words[bytes];
      if (f->makes_gpu_work) ++launches_;
    }
    p.api.result_name = from_.functions->result(p.api.runtime_api, p.api.result);
    if (CUTRACE_UNLIKELY(loses_context(p.api.result))) note_lost_context(f, p.api.runtime_api, p.api.result);
    p.words_at = window_.add_words(words, count);
  }

  /// For the files: the program has the error itself, but who reads the trace must know why it thins out. Once.
  CUTRACE_NOINLINE void note_lost_context(const known_function* f, bool runtime, std::int32_t result) {
    if (lost_context_noted_) return;
    lost_context_noted_ = true;
    char line[280];
    describe_lost_context(line, name_of(f).data, from_.functions->result(runtime, result), result);
    from_.errors->report("session", line, false);
  }

  void take_gpu(const record& r) {
    if (parts_.words.size() < 7) return;
    std::uint64_t words[7];
    std::copy(parts_.words.begin(), parts_.words.begin() + 7, words);
    const bool ns = r.has(flag_ns_times);
    event e;
    e.start_ns = static_cast<std::int64_t>(ns ? r.begin : from_.scale->to_ns(r.begin));
    e.end_ns = static_cast<std::int64_t>(ns ? r.end : from_.scale->to_ns(r.end));
    decode_gpu(r, words, e);
    e.name = from_.sites->at(r.site()).name;
    if (e.kind == event_kind::kernel) {
      e.kernel.mangled_name = e.name;
      e.name = strings_.demangle(strings_.intern(e.name.data, e.name.size));
    }
    take_joined(e);
  }

  void take_graph(const record& r) {
    switch (static_cast<graph_change::action>(r.count())) {
      case graph_change::action::node_added: {
        const known_stage* s = stages_.find(r.parent);  // told by the same thread, so before
        return from_.graphs->added(r.id, r.parent, s != nullptr ? s->name_text() : name_lost);
      }
      case graph_change::action::node_copied:
        return from_.graphs->copied(r.id, r.a);
      case graph_change::action::updated:
        return from_.graphs->updated(static_cast<std::uint32_t>(r.id >> 32), static_cast<std::uint32_t>(r.a >> 32),
                                     static_cast<std::int64_t>(from_.scale->to_ns(r.begin)));
      case graph_change::action::gone:
        return from_.graphs->gone(static_cast<std::uint32_t>(r.id >> 32));
    }
  }

  void take_joined(const event& e) {
    if (pending_work::holds(e)) return take_work(e);
    pending_event& p = window_.append(e.start_ns, e.end_ns);
    static_cast<event&>(p) = e;
    p.process_id = process_id_;
    if (e.kind == event_kind::api) take_foreign_call(p, e);
    if (e.kind == event_kind::system)
      p.system.argument_count = window_.add_described(p, e.system.arguments, e.system.argument_count);
    if (comes_from_call(p) && !join(p))
      window_.take_back();
    else
      ++produced_;
  }
  CUTRACE_INLINE void take_work(const event& e) {
    correlation_ring::call call{};
    attribution joined{};
    if (!find_call(e, joined, call)) return;
    pending_work& p = window_.append_work(e);
    p.keep(e);
    p.joined = joined;
    p.call_start_ns = e.start_ns;
    p.call_thread = 0;
    p.epoch = 0;
    p.call_function = pending_work::no_function;
    p.stage_place = stage_table::no_place;
    ++produced_;
    if (!is_found(joined)) return;
    p.epoch = call.epoch & 0xff;
    p.stage_id = call.stage;
    p.stage_place = stages_.place_of(call.stage);
    p.call_start_ns = static_cast<std::int64_t>(from_.scale->to_ns(call.begin_ticks));
    p.call_thread = call.thread_index & 0xffffff;
    p.call_function =
        pending_work::function_word(call.function & ~function_runtime_bit, (call.function & function_runtime_bit) != 0);
  }

  static bool is_found(attribution a) noexcept { return a == attribution::by_call || a == attribution::outside_stage; }
  /// Finds the launching call by correlation id, and through it thread and stage. Never guesses by time. False for work
  /// that was issued while tracing was paused: it is no part of the trace.
  CUTRACE_INLINE bool find_call(const event& e, attribution& joined, correlation_ring::call& call) {
    joined = from_.ring->find(static_cast<std::uint32_t>(e.correlation_id), call);
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
    p.call_start_ns = static_cast<std::int64_t>(from_.scale->to_ns(call.begin_ticks));
    p.call_thread = call.thread_index;
    p.call_name =
        from_.functions->name_of(call.function & ~function_runtime_bit, (call.function & function_runtime_bit) != 0);
    return true;
  }

  /// A record without times (quality no_timestamp) is an instant at its call, else at its arrival: at 0 it would stand
  /// before the machine was started.
  CUTRACE_NOINLINE void take_timeless(const event& e) {
    pending_event p;
    static_cast<event&>(p) = e;
    p.process_id = process_id_;
    if (comes_from_call(p) && !join(p)) return;
    if (!is_found(p.joined)) p.call_start_ns = static_cast<std::int64_t>(from_.scale->now_ns());
    p.start_ns = p.end_ns = p.call_start_ns;
    window_.append(p.start_ns, p.end_ns) = p;
    ++produced_;
  }

  struct thread_id {
    std::uint32_t index = 0, kernel_id = 0;
  };
  ingest_sources from_;
  order_window window_;
  string_table strings_;
  stage_table stages_;
  std::vector<thread_id> thread_ids_;
  record_parts parts_;  ///< of the next record
  std::uint32_t process_id_;
  std::atomic<std::int64_t> start_ns_{0};
  std::uint64_t produced_ = 0;
  std::uint64_t gpu_records_ = 0;
  std::uint64_t launches_ = 0;
  bool lost_context_noted_ = false;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
