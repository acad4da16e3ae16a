// SPDX-License-Identifier: Apache-2.0
// From records and backend events to pending events: names, stages, calls. Collector's thread only.
#pragma once

#include <atomic>
#include <cstring>
#include <cutrace/detail/clock_map.hpp>
#include <cutrace/detail/correlation_ring.hpp>
#include <cutrace/detail/fatal_result.hpp>
#include <cutrace/detail/function_table.hpp>
#include <cutrace/detail/gpu_encode.hpp>
#include <cutrace/detail/graph_table.hpp>
#include <cutrace/detail/order_window.hpp>
#include <cutrace/detail/reporter.hpp>
#include <cutrace/detail/site_table.hpp>
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
  CUTRACE_NOINLINE ingest(const ingest_sources& from, std::size_t string_bytes, std::uint32_t process_id)
      : from_(from), strings_(string_bytes), process_id_(process_id) {
    thread_ids_.resize(thread_slots);
  }

  /// Reads committed records [first, last) of a chunk. Groups never span chunks.
  void read(const traced_thread& t, const record* first, const record* last) {
    thread_ids_[t.index % thread_slots] = {t.index, t.thread_id};
    for (const record* r = first; r != last; ++r) read_record(t, *r);
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

  static constexpr std::uint32_t function_runtime_bit = 1u << 31;

 private:
  static constexpr std::size_t thread_slots = 1u << 14;

  void read_record(const traced_thread& t, const record& r) {
    switch (r.type()) {
      case record_type::text:
        return read_text(r);
      case record_type::requests:
      case record_type::words:
        return read_words(r);
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
    name_text_.clear();
    request_text_.clear();
    told_[0] = told_[1] = false;
    words_.clear();
    enclosing_ = 0;
  }

  void read_text(const record& r) {
    text_record piece;
    std::memcpy(&piece, &r, sizeof(piece));
    (piece.slot == 0 ? name_text_ : request_text_).append(piece.bytes, piece.size);
    told_[piece.slot == 0 ? 0 : 1] = true;
  }
  void read_words(const record& r) {
    words_record piece;
    std::memcpy(&piece, &r, sizeof(piece));
    words_.insert(words_.end(), piece.words, piece.words + piece.size);
    enclosing_ = piece.enclosing;
  }

  text name_of(const record& r) {
    if (!r.has(flag_dynamic)) return from_.sites->at(r.site()).name;
    if (!told_[0]) return name_lost;  // told to an earlier trace, in which the stage began
    return strings_.intern(name_text_.data(), name_text_.size());
  }

  void keep_requests(known_stage& s, const record& r) {
    s.total = 0;
    s.requests.clear();
    if (r.form() == request_form::text) {
      s.total = 1;
      if (!told_[1]) return;           // to an earlier trace, in which the stage began
      s.request_text = request_text_;  // not interned: requests come and go without end
      s.requests.push_back({hash_text(request_text_.data(), request_text_.size()),
                            {s.request_text.data(), static_cast<std::uint32_t>(s.request_text.size())}});
    } else if (r.form() == request_form::batch) {
      s.total = static_cast<std::uint32_t>(r.a);
      s.requests.reserve(words_.size());
      for (const std::uint64_t id : words_) s.requests.push_back({id, {}});
    }
    stages_.charge(s);
  }

  void open_stage(const record& r) {
    known_stage* s = stages_.open(r.id);
    if (s == nullptr) return;
    s->name = name_of(r);
    s->parent = r.parent;
    s->owner = r.c;
    s->word = r.a;
    s->form = r.form();
    if (r.c == r.id) keep_requests(*s, r);
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
    pending_event& p = host_event(event_kind::stage, t, r);
    p.stage_id = r.id;
    p.depth = static_cast<std::uint32_t>(r.b & 0xffff);
    p.stage.parent = r.parent;
    p.stage.adopted = r.has(flag_adopted);
    p.stage.span = r.has(flag_span);
    p.request_word = r.a;
    p.request_owner = r.c;
    p.form = r.form();
    const bool opened = (r.b >> 16 & 0xffff) != 0;
    if (r.has(flag_dynamic)) {
      const known_stage* s = stages_.find(r.id);
      p.name = s != nullptr ? s->name : text{nullptr, 0};  // an adopted part that is read first: delivery asks again
      if (r.site() != 0) keep_origin(p.stage, from_.sites->at(r.site()));
    } else {
      const site_table::entry& site = from_.sites->at(r.site());
      p.name = site.name;
      if (!keep_origin(p.stage, site)) {
        p.stage.file = site.file;
        p.stage.line = site.line;
      }
    }
    if (opened && !p.stage.adopted) stages_.close(r.id);
  }

  /// What NVTX says beside name and time. False for a site of a marker.
  bool keep_origin(stage_data& s, const site_table::entry& site) const {
    if (site.kind != static_cast<std::uint8_t>(site_kind::nvtx)) return false;
    s.origin = stage_origin::nvtx;
    s.domain = site.file;
    if (words_.size() < 3) return true;
    s.payload = words_[0];
    s.payload_kind = static_cast<argument_kind>(words_[1] & 0xff);
    s.color = static_cast<std::uint32_t>(words_[1] >> 32);
    s.category = static_cast<std::uint32_t>(words_[2]);
    if (const std::uint32_t named = static_cast<std::uint32_t>(words_[2] >> 32))
      s.category_name = from_.sites->at(named).name;
    return true;
  }

  void take_mark(const traced_thread& t, const record& r) {
    pending_event& p = host_event(event_kind::mark, t, r);
    p.name = name_of(r);
    if (r.site() != 0) keep_origin(p.stage, from_.sites->at(r.site()));
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
    for (std::uint32_t i = 0; i < e.api.argument_count; ++i) words[i] = e.api.arguments[i].value;  // 10 at the most
    complete_call(p, words, e.api.argument_count);
  }

  void take_call(const traced_thread& t, const record& r) {
    pending_event& p = host_event(event_kind::api, t, r);
    const bool runtime = r.has(flag_runtime);
    const std::uint32_t id = static_cast<std::uint32_t>(r.id);
    p.correlation_id = with_epoch(id);
    p.stage_id = r.parent;
    p.api.function = function_of(r.site());
    if (const std::uint32_t caller = runtime_function_of(r.site())) p.api.runtime_name = name_of(caller, true);
    p.api.result = static_cast<std::int32_t>(r.id >> 32);
    p.api.runtime_api = runtime;
    if (CUTRACE_UNLIKELY(enclosing_ != 0)) p.api.enclosing = with_epoch(enclosing_);
    p.api.argument_count = r.count();
    const std::uint64_t head[3] = {r.a, r.b, r.c};
    std::uint64_t words[10] = {};
    const std::size_t count = std::min<std::size_t>(r.count(), 10);
    for (std::size_t i = 0; i < count; ++i) words[i] = i < 3 ? head[i] : i - 3 < words_.size() ? words_[i - 3] : 0;
    complete_call(p, words, static_cast<std::uint32_t>(count));
  }

  /// What is known of its function, and the values of its arguments.
  void complete_call(pending_event& p, const std::uint64_t* words, std::uint32_t count) {
    const known_function* f = from_.functions->find(p.api.function, p.api.runtime_api);
    if (f != nullptr) {
      p.name = {f->name.data(), static_cast<std::uint32_t>(f->name.size())};
      p.api.direction = f->direction;
      const std::size_t bytes = static_cast<std::size_t>(f->bytes_parameter);
      if (f->bytes_parameter >= 0 && bytes < count) p.api.bytes = words[bytes];
      if (f->makes_gpu_work) ++launches_;
    } else {
      p.name = {"(unknown function)", 18};
    }
    p.api.result_name = from_.functions->result(p.api.runtime_api, p.api.result);
    if (CUTRACE_UNLIKELY(loses_context(p.api.result))) note_lost_context(p);
    window_.add_words(p, words, count);
  }

  /// For the files: the program has the error itself, but who reads the trace must know why it thins out. Once.
  CUTRACE_NOINLINE void note_lost_context(const pending_event& call) {
    if (lost_context_noted_) return;
    lost_context_noted_ = true;
    char line[280];
    describe_lost_context(line, call.name.data, call.api.result_name, call.api.result);
    from_.errors->report("session", line, false);
  }

  void take_gpu(const record& r) {
    if (words_.size() < 7) return;
    std::uint64_t words[7];
    std::copy(words_.begin(), words_.begin() + 7, words);
    const bool ns = r.has(flag_ns_times);
    pending_event& p = window_.append(static_cast<std::int64_t>(ns ? r.begin : from_.scale->to_ns(r.begin)),
                                      static_cast<std::int64_t>(ns ? r.end : from_.scale->to_ns(r.end)));
    decode_gpu(r, words, p);
    p.process_id = process_id_;
    p.name = from_.sites->at(r.site()).name;
    if (p.kind == event_kind::kernel) {
      p.kernel.mangled_name = p.name;
      p.name = strings_.demangle(strings_.intern(p.name.data, p.name.size));
    }
    if (join(p))
      ++produced_;
    else
      window_.take_back();
  }

  void take_graph(const record& r) {
    switch (static_cast<graph_change::action>(r.count())) {
      case graph_change::action::node_added: {
        const known_stage* s = stages_.find(r.parent);  // told by the same thread, so before
        return from_.graphs->added(r.id, r.parent, s != nullptr ? s->name : name_lost);
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

  /// Finds the launching call by correlation id, and through it thread and stage. Never guesses by time. False for work
  /// that was issued while tracing was paused: it is no part of the trace.
  bool join(pending_event& p) {
    correlation_ring::call call{};
    p.joined = from_.ring->find(static_cast<std::uint32_t>(p.correlation_id), call);
    const bool found = p.joined == attribution::by_call || p.joined == attribution::outside_stage;
    if (found && call.stage == api_call::not_recorded) return false;
    if (p.is_gpu_work()) ++gpu_records_;
    p.call_start_ns = p.start_ns;
    if (!found) return true;
    p.correlation_id |= std::uint64_t{call.epoch} << 32;
    p.stage_id = call.stage;
    p.call_start_ns = static_cast<std::int64_t>(from_.scale->to_ns(call.begin_ticks));
    p.call_thread = call.thread_index;
    p.call_name = name_of(call.function & ~function_runtime_bit, (call.function & function_runtime_bit) != 0);
    return true;
  }

  /// Empty where it is not known.
  text name_of(std::uint32_t function, bool runtime) const noexcept {
    const known_function* f = from_.functions->find(function, runtime);
    return f != nullptr ? text{f->name.data(), static_cast<std::uint32_t>(f->name.size())} : text{};
  }

  /// A record without times (quality no_timestamp) is an instant at its call, else at its arrival: at 0 it would stand
  /// before the machine was started.
  CUTRACE_NOINLINE void take_timeless(const event& e) {
    pending_event p;
    static_cast<event&>(p) = e;
    p.process_id = process_id_;
    if (comes_from_call(p) && !join(p)) return;
    const bool called = p.joined == attribution::by_call || p.joined == attribution::outside_stage;
    if (!called) p.call_start_ns = static_cast<std::int64_t>(from_.scale->now_ns());
    p.start_ns = p.end_ns = p.call_start_ns;
    window_.append(p.start_ns, p.end_ns) = p;
    ++produced_;
  }

  struct thread_id {
    std::uint32_t index = 0;
    std::uint32_t kernel_id = 0;
  };
  ingest_sources from_;
  order_window window_;
  string_table strings_;
  stage_table stages_;
  std::vector<thread_id> thread_ids_;
  std::string name_text_, request_text_;
  bool told_[2] = {};  ///< whether there was a text of name and request, be it empty
  std::vector<std::uint64_t> words_;
  std::uint32_t enclosing_ = 0;
  std::uint32_t process_id_;
  std::atomic<std::int64_t> start_ns_{0};
  std::uint64_t produced_ = 0;
  std::uint64_t gpu_records_ = 0;
  std::uint64_t launches_ = 0;
  bool lost_context_noted_ = false;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
