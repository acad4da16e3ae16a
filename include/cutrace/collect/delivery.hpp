// SPDX-License-Identifier: Apache-2.0
// The last step before the sinks: times of the raw frame (clock.hpp) become session time (corrected, counted from the
// session's begin), stages and requests are looked up, arguments get their names. This happens late, so that what other
// threads have reported meanwhile is known. Collector's thread only.
#pragma once

#include <array>
#include <cstring>
#include <cutrace/collect/clock_map.hpp>
#include <cutrace/collect/event_tables.hpp>
#include <cutrace/collect/order_window.hpp>
#include <cutrace/collect/sink_set.hpp>
#include <cutrace/marker/stage_write.hpp>
#include <new>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class delivery {
 public:
  delivery(event_tables& tables, const clock_correction& correction, sink_set& to)
      : tables_(tables), correction_(correction), to_(to) {
    make_room();
    described_.reserve(slice);
  }

  void set_start(std::uint64_t monotonic_ns) noexcept { start_ns_ = monotonic_ns; }
  std::uint64_t start_ns() const noexcept { return start_ns_; }

  /// Delivers a part of the window in slices, so that pointers into the scratch arrays stay valid in each.
  /// @param now_ns raw time at which all of these events had ended
  void deliver(const order_window::bucket& b, std::uint64_t now_ns) {
    now_session_ns_ = session_ns(static_cast<std::int64_t>(now_ns));
    part_ = &b;
    deliver_from(0);
  }

  /// Queues a description, to be delivered before the next events. False where there is no memory for it.
  bool describe(const event& e) noexcept {
    try {
      described_.push_back(e);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  std::size_t described() const noexcept { return described_.size(); }
  void deliver_described() {
    if (described_.empty()) return;
    shown_.clear();
    shown_.swap(described_);
    delivered_ += shown_.size();
    for (const event& e : shown_) ++by_kind_[static_cast<std::size_t>(e.kind)];
    to_.write(shown_.data(), shown_.size());
  }

  /// Delivers the rest of what the former thread, which hangs in a sink, was delivering. Keeps the arrays that the sink
  /// was given, since it may still read them.
  CUTRACE_NOINLINE void go_on() {
    left_.push_back({std::move(shown_), std::move(events_), std::move(requests_), std::move(arguments_)});
    shown_.clear();
    make_room();
    if (part_ != nullptr) deliver_from(next_);
  }

  /// An event as it will be delivered, with its stage and requests, to report it now. Valid until the next call of this
  /// or of `deliver`.
  event complete(const pending_event& p) {
    const std::uint64_t before[2] = {without_stage_, without_requests_};
    requests_.clear();
    expanded_ = {};
    event e;
    e.start_ns = session_ns(p.start_ns);
    e.end_ns = session_ns(p.end_ns);
    unpack_whole(p, no_words_, e);
    without_stage_ = before[0];  // counted when it is delivered
    without_requests_ = before[1];
    return e;
  }

  /// Completes an event that is delivered now and to some of the sinks only.
  void settle(event& e) const noexcept {
    e.start_ns = session_ns(e.start_ns);
    e.end_ns = session_ns(e.end_ns);
    e.late = e.end_ns < newest_end_ns_;
  }

  /// Session time of a time of the raw frame.
  std::int64_t session_ns(std::int64_t raw_ns) const noexcept {
    return static_cast<std::int64_t>(correction_.apply(static_cast<std::uint64_t>(raw_ns)) - start_ns_);
  }

  std::uint64_t delivered() const noexcept { return delivered_; }
  std::uint64_t late() const noexcept { return late_; }  ///< of these, behind events that ended later
  /// Events for which there was no memory since the last call.
  std::uint64_t take_failed() noexcept { return std::exchange(failed_, 0); }
  void fill(stats& s) const noexcept {
    s.delivered = delivered_;
    for (std::size_t i = 0; i < event_kind_count; ++i) s.by_kind[i] = by_kind_[i];
    for (std::size_t i = 0; i < 6; ++i) s.unattributed_by[i] = joined_[i];
    s.quality_of[static_cast<std::size_t>(quality::unattributed)] =
        joined_[static_cast<std::size_t>(attribution::no_callback)] +
        joined_[static_cast<std::size_t>(attribution::expired)];
    s.quality_of[static_cast<std::size_t>(quality::stage_unknown)] = without_stage_;
    s.quality_of[static_cast<std::size_t>(quality::requests_unknown)] = without_requests_;
    s.quality_of[static_cast<std::size_t>(quality::incomplete)] = incomplete_;
    s.quality_of[static_cast<std::size_t>(quality::skew)] = skewed_;
    s.lacking = lacking_;
    s.quality_of[static_cast<std::size_t>(quality::late)] = late_;
  }

 private:
  static constexpr std::size_t slice = 64;
  static constexpr std::size_t argument_limit = 10;  ///< of one event
  /// Requests of one slice. Most of it is never touched.
  static constexpr std::size_t request_room = 8 * request_limit;
  /// How many events ahead these are prefetched: an event, its stage, and the stage that names its requests.
  static constexpr std::size_t ahead = 32, stage_ahead = 20, naming_ahead = 8;

  void make_room() {
    events_.resize(slice);
    arguments_.resize(slice * argument_limit);
    requests_.reserve(request_room);
  }

  void deliver_from(std::size_t at) {
    const order_window::bucket& b = *part_;
    const order_window::place* const order = b.order.data();
    const std::size_t count = b.order.size();
    while (at < count) {
      const std::size_t end = std::min(count, at + slice);
      requests_.clear();
      expanded_ = {};
      next_argument_ = arguments_.data();
      event* made = events_.data();
      // A mark may have the requests of its stage and its own.
      for (; at < end && requests_.size() + 2 * request_limit <= request_room; ++at) {
        prefetch(order + at, count - at);
        try {
          unpack(b.words, order[at], *::new (static_cast<void*>(made++)) event);
        } catch (const std::bad_alloc&) {
          --made;
          ++failed_;
        }
      }
      const std::size_t n = static_cast<std::size_t>(made - events_.data());
      delivered_ += n;
      next_ = at;
      to_.write(events_.data(), n);
    }
    part_ = nullptr;
  }

  /// The window is larger than caches, its order is not that of memory, and the stages of its events have left the
  /// caches, too. All forms are prefetched alike: the lines behind a shorter one do no harm.
  CUTRACE_INLINE void prefetch(const order_window::place* from, std::size_t left) {
    if (CUTRACE_UNLIKELY(left <= ahead)) return;
    const char* const waiting = from[ahead].address();
    __builtin_prefetch(waiting);
    __builtin_prefetch(waiting + 64);
    if (CUTRACE_UNLIKELY(from[ahead].kind() == order_window::form::whole))
      for (std::size_t at = 128; at < sizeof(pending_event); at += 64) __builtin_prefetch(waiting + at);
    tables_.stages.prefetch(stage_place_of(from[stage_ahead]));
    tables_.stages.prefetch_naming_stage(stage_place_of(from[naming_ahead]));
  }
  /// The place of an event's stage; any number where the event has none.
  static std::uint32_t stage_place_of(const order_window::place& p) noexcept {
    std::uint32_t place;
    std::memcpy(&place, p.address() + stage_place_at, sizeof(place));
    return place;
  }

  /// Completes the event at place `p`. `e` is new.
  CUTRACE_INLINE void unpack(const std::vector<std::uint64_t>& words, const order_window::place& p, event& e) {
    e.start_ns = session_ns(p.start_ns);
    e.end_ns = session_ns(p.end_ns);
    lacks_ = false;
    switch (p.kind()) {
      case order_window::form::host: {
        const pending_host& h = p.as<pending_host>();
        e.process_id = tables_.process_id;
        e.thread_id = h.thread_id;
        if (h.type() == record_type::stage) {
          unpack_marker_stage(h, e);
        } else {
          unpack_call(h, words, e);
          if (e.stage_id != 0) resolve_stage(e, h.at.stage_place);
        }
        break;
      }
      case order_window::form::work: {
        const pending_work& w = p.as<pending_work>();
        e.process_id = tables_.process_id;
        w.unpack(e);
        if (w.call_function != pending_work::no_function)
          e.call_name = tables_.functions.name_of(w.call_function & ~pending_work::runtime_bit,
                                                  (w.call_function & pending_work::runtime_bit) != 0);
        resolve_gpu(e, w.call_thread());
        if (e.stage_id != 0) resolve_stage(e, w.stage_place);
        break;
      }
      case order_window::form::whole:
        unpack_whole(p.as<pending_event>(), words, e);
        break;
    }
    e.late = e.end_ns < newest_end_ns_;
    if (CUTRACE_UNLIKELY(e.late))
      ++late_;
    else
      newest_end_ns_ = std::min(e.end_ns, now_session_ns_);  // a time from the future makes nothing else late
    ++by_kind_[static_cast<std::size_t>(e.kind)];
    lacking_ += lacks_;
  }

  CUTRACE_NOINLINE void unpack_whole(const pending_event& p, const std::vector<std::uint64_t>& words, event& e) {
    const std::int64_t start_ns = e.start_ns, end_ns = e.end_ns;
    e = p;
    e.start_ns = start_ns;
    e.end_ns = end_ns;
    if (e.kind == event_kind::api)
      name_arguments(e, tables_.functions.find(e.api.function, e.api.runtime_api),
                     [&](std::uint32_t i) { return words[p.words_at + i]; });
    if (e.kind == event_kind::system) name_described(e, words.data() + p.words_at);
    if (comes_from_call(e)) resolve_gpu(e, p.call_thread);
    if (e.kind == event_kind::kernel && e.kernel.queued_ns != 0) e.kernel.queued_ns = session_ns(e.kernel.queued_ns);
    if (e.kind == event_kind::kernel && e.kernel.submitted_ns != 0)
      e.kernel.submitted_ns = session_ns(e.kernel.submitted_ns);
    if (e.kind == event_kind::stage)
      resolve_name(e);
    else if (e.stage_id != 0)
      resolve_stage(e, stage_table::no_place);
    if (p.form != request_form::none)  // marks may bring their own
      unpack_requests(e, p.form, p.request_word, p.naming_stage, stage_table::no_place);
  }

  void unpack_marker_stage(const pending_host& h, event& e) {
    pending_more more;
    unpack_stage(h, e, more);
    if (h.has(flag_dynamic)) {
      e.name = {h.name, h.name_size_or_words_at};
    } else {
      const site_table::entry& site = tables_.sites.at(h.site());
      e.name = site.name;
      e.stage.file = site.file;
      e.stage.line = site.line;
    }
    resolve_name(e);
    const std::uint32_t naming_place = h.has(flag_dynamic) ? stage_table::no_place : h.at.stage_place;
    unpack_requests(e, more.form, more.request_word, more.naming_stage, naming_place);
  }

  void unpack_call(const pending_host& h, const std::vector<std::uint64_t>& words, event& e) {
    const bool runtime = h.has(flag_runtime);
    const std::uint32_t count = std::min<std::uint32_t>(h.count(), argument_limit);
    const std::uint32_t rest = count > 3 ? count - 3 : 0;
    const bool enclosed = (h.at.epoch & pending_host::is_enclosed) != 0;
    // The words are missing if memory ran out when they came.
    const bool reported = h.name_size_or_words_at + rest + (enclosed ? 1u : 0u) <= words.size();
    const std::uint64_t* more = reported ? words.data() + h.name_size_or_words_at : nothing;
    e.kind = event_kind::api;
    e.correlation_id = (h.id & 0xffffffffu) | static_cast<std::uint64_t>(h.at.epoch & 0xffu) << 32;
    e.stage_id = h.parent;
    e.api.function = function_of(h.site());
    e.api.result = static_cast<std::int32_t>(h.id >> 32);
    e.api.runtime_api = runtime;
    e.api.argument_count = count;
    if (const std::uint32_t caller = runtime_function_of(h.site()))
      e.api.runtime_name = tables_.functions.name_of(caller, true);
    if (CUTRACE_UNLIKELY(enclosed)) e.api.enclosing = more[rest];
    e.api.result_name = tables_.functions.result(runtime, e.api.result);
    const known_function* f = tables_.functions.find(e.api.function, runtime);
    e.name = event_tables::name_of(f);
    const std::uint64_t head[3] = {h.a, h.b, h.c};
    const auto word = [&](std::uint32_t i) { return i < 3 ? head[i] : more[i - 3]; };
    if (f != nullptr) {
      e.api.direction = f->direction;
      const std::uint32_t bytes = static_cast<std::uint32_t>(f->bytes_parameter);
      if (f->bytes_parameter >= 0 && bytes < count) e.api.bytes = word(bytes);
    }
    name_arguments(e, f, word);
  }

  /// `word(i)`: the value of argument `i`.
  template <class Word>
  void name_arguments(event& e, const known_function* f, Word word) {
    const std::size_t known = f != nullptr ? f->parameters.size() : 0;
    e.api.arguments = next_argument_;
    for (std::uint32_t i = 0; i < e.api.argument_count; ++i) {
      argument& a = *next_argument_++;
      a = i < known ? f->parameters[i] : argument{};
      a.value = word(i);
    }
  }

  void name_described(event& e, const std::uint64_t* words) {
    e.system.arguments = next_argument_;
    for (std::uint32_t i = 0; i < e.system.argument_count; ++i)
      *next_argument_++ = described_argument::get(words + described_argument::words * i);
  }

  /// To be called while `call_start_ns` is in the raw frame, as are the times of graph updates that it is compared
  /// with: an update concerns later launches only.
  void resolve_capture(event& p) {
    const graph_table::capture* c = nullptr;
    switch (p.kind) {
      case event_kind::kernel:
        if (p.kernel.graph_node_id != 0) c = tables_.graphs.find(p.kernel.graph_node_id, p.call_start_ns);
        break;
      case event_kind::memcpy:
        if (p.memcpy_.graph_node_id != 0) c = tables_.graphs.find(p.memcpy_.graph_node_id, p.call_start_ns);
        break;
      case event_kind::memset:
        if (p.memset_.graph_node_id != 0) c = tables_.graphs.find(p.memset_.graph_node_id, p.call_start_ns);
        break;
      case event_kind::graph_launch:
        c = tables_.graphs.find_common(p.kernel.graph_id, p.call_start_ns);
        break;
      default:
        break;
    }
    if (c == nullptr) return;
    if (c->stage != captured_in_) {  // the table's copy of the name may go before the session does
      captured_in_ = c->stage;
      captured_name_ = tables_.strings.intern_dynamic(c->name.data(), c->name.size());
    }
    p.capture_stage_id = c->stage;
    p.capture_stage_name = captured_name_;
  }

  void resolve_gpu(event& p, std::uint32_t call_thread) {
    incomplete_ += p.incomplete;
    if (!tables_.graphs.empty()) resolve_capture(p);
    p.call_start_ns = session_ns(p.call_start_ns);
    if (p.thread_id == 0) p.thread_id = tables_.thread_id_of(call_thread);  // the thread may be known only now
    // Counted, not clipped: readers of the trace decide what to make of it.
    const std::int64_t bound = static_cast<std::int64_t>(correction_.error_ns());
    if (p.joined <= attribution::outside_stage && p.is_gpu_work() && !p.by_events &&
        p.start_ns + bound < p.call_start_ns) {
      p.skewed = true;
      ++skewed_;
    }
    if (!p.is_gpu_work() || p.joined == attribution::by_call) return;
    ++joined_[static_cast<std::size_t>(p.joined)];
    lacks_ = p.joined == attribution::no_callback || p.joined == attribution::expired;
  }

  void resolve_name(event& p) {
    if (p.name.data == nullptr) {
      const known_stage* s = tables_.stages.find(p.stage_id);
      p.name = s != nullptr ? s->name_text() : event_tables::name_lost;
      if (s == nullptr) lack(without_stage_);
    }
    p.stage_name = p.name;
  }

  CUTRACE_INLINE void resolve_stage(event& p, std::uint32_t place) {
    const known_stage* const s = tables_.stages.find_at(place, p.stage_id);
    if (CUTRACE_UNLIKELY(s == nullptr)) {
      if (p.kind == event_kind::mark) return;  // the stage's own event has the name
      if (p.is_gpu_work()) {
        p.joined = attribution::stage_unknown;
        ++joined_[static_cast<std::size_t>(attribution::stage_unknown)];
      }
      return lack(without_stage_);
    }
    p.stage_name = s->name_text();
    unpack_requests(p, s->form, s->word, s->naming_stage, s->naming_place);
  }

  CUTRACE_INLINE void unpack_requests(event& p, request_form form, std::uint64_t word, std::uint64_t naming_stage,
                                      std::uint32_t naming_place) {
    if (form == request_form::none) return;
    if (form == request_form::id) {
      requests_.push_back({word, {}});
      p.requests = &requests_.back();
      p.request_count = p.request_total = 1;
      return;
    }
    const known_stage* const s = tables_.stages.find_at(naming_place, naming_stage);
    // The number is known even where the naming stage's record was lost, or the stage was forgotten to save memory.
    p.request_total = s != nullptr ? s->total : form == request_form::batch ? static_cast<std::uint32_t>(word) : 1;
    p.request_count = s != nullptr ? s->request_count : 0;
    p.requests = p.request_count != 0 ? expand(*s) : nullptr;
    if (CUTRACE_UNLIKELY(p.request_count == 0 && p.request_total != 0)) lack(without_requests_);
  }
  /// The requests that a stage named, as events show them. The stage keeps them in a third of the memory.
  const request_ref* expand(const known_stage& naming) {
    for (const expansion& x : expanded_)
      if (x.naming_stage == naming.id) return x.requests;
    expansion& x = expanded_[next_expansion_++ % expanded_.size()];
    x = {naming.id, requests_.data() + requests_.size()};
    if (naming.has_text()) {
      requests_.push_back(naming.text_request());
    } else {
      requests_.resize(requests_.size() + naming.request_count);
      request_ref* const to = requests_.data() + (requests_.size() - naming.request_count);  // written where they stay
      for (std::uint32_t i = 0; i < naming.request_count; ++i) to[i].id = naming.requests[i];
    }
    return x.requests;
  }

  /// Counted once for each event, however much the event lacks.
  void lack(std::uint64_t& count) noexcept {
    ++count;
    lacks_ = true;
  }

  static constexpr std::uint64_t nothing[8] = {};
  event_tables& tables_;
  const clock_correction& correction_;
  sink_set& to_;
  std::uint64_t start_ns_ = 0;
  std::uint64_t captured_in_ = 0;  ///< stage of the capture that was asked for last
  text captured_name_;
  const order_window::bucket* part_ = nullptr;  ///< being delivered, or nullptr
  std::size_t next_ = 0;                        ///< index in its `order` where the next slice begins
  std::vector<event> described_, shown_;        ///< descriptions: not delivered yet; delivered last
  std::vector<event> events_;                   ///< of one slice, as are the next two
  std::vector<request_ref> requests_;
  std::vector<argument> arguments_;
  const std::vector<std::uint64_t> no_words_;
  argument* next_argument_ = nullptr;
  struct given {
    std::vector<event> shown, events;
    std::vector<request_ref> requests;
    std::vector<argument> arguments;
  };
  std::vector<given> left_;  ///< see go_on
  std::int64_t newest_end_ns_ = INT64_MIN;
  std::int64_t now_session_ns_ = 0;  ///< session time of the last delivery
  std::uint64_t delivered_ = 0, failed_ = 0;
  std::uint64_t by_kind_[event_kind_count] = {};
  std::uint64_t joined_[6] = {};
  struct expansion {
    std::uint64_t naming_stage = 0;
    const request_ref* requests = nullptr;
  };
  /// The last expansions in `requests_`: several, since events of threads alternate. With a single one, an event of two
  /// threads' batches costs the collector 159 ns instead of 130 (bench/sink_cost, null).
  std::array<expansion, 4> expanded_{};
  std::size_t next_expansion_ = 0;
  bool lacks_ = false;  ///< whether the event at hand lacks something
  std::uint64_t without_stage_ = 0;
  std::uint64_t without_requests_ = 0;
  std::uint64_t lacking_ = 0;
  std::uint64_t incomplete_ = 0;
  std::uint64_t skewed_ = 0;
  std::uint64_t late_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
