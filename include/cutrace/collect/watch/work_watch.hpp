// SPDX-License-Identifier: Apache-2.0
// Names the work that made the GPU fault, and what hangs, from the order of the streams and from the work that a forced
// flush returned unfinished. Nothing is claimed that is not known: a kernel behind a wait is not accused, and where
// times were lost, all work that cannot be excluded is named. The records that CUPTI's flushes bring, and when, were
// measured (docs/hangs-and-faults.md). Collector's thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <cutrace/collect/delivery.hpp>
#include <cutrace/collect/event_tables.hpp>
#include <cutrace/collect/pending.hpp>
#include <cutrace/collect/thread_registry.hpp>
#include <cutrace/collect/watch/alarm_text.hpp>
#include <cutrace/collect/watch/fault_state.hpp>
#include <cutrace/collect/watch/stage_watch.hpp>
#include <cutrace/collect/watch/stream_order.hpp>
#include <cutrace/collect/watch/unfinished_work.hpp>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class work_watch : alarm_text {
 public:
  using role = stream_use::role;

  /// An alarm as it is reported: the text block for a person, and the events.
  struct report {
    std::string text;
    std::vector<pending_event> alarms;
  };

  work_watch(event_tables& tables, stream_order& order, const unfinished_work& unfinished, delivery& events,
             thread_registry& threads)
      : tables_(tables),
        order_(order),
        unfinished_(unfinished),
        delivery_(events),
        threads_(threads),
        stages_(tables, events) {}

  /// Puts the calls that have come in order. To be called now and then, so that stream_order holds little.
  void settle() {
    order_.settle();
    order_.take_released([this](std::uint32_t place, std::uint64_t id) { tables_.stages.let_go(place, id); });
  }

  /// Whether a thread is in a launching call that has lasted less than `full_ns`; a longer one is taken to wait for
  /// room in a full stream. While the driver loads a kernel at its first launch (4 ms for the first kernel with an
  /// assertion), a flush may wait for all queued work (H100).
  bool is_launch_under_way(std::int64_t now_ns) {
    constexpr std::int64_t full_ns = 20000000;
    bool any = false;
    threads_.for_each([&](traced_thread& t) {
      const standing c = call_of(t, now_ns);
      if (c.function == 0 || now_ns - c.since_ns >= full_ns) return;
      const text name = tables_.functions.name_of(c.function, false);
      any = any || is_launch(name) || starts_with(name, "cuGraphLaunch");
    });
    return any;
  }

  /// The report of a fault. Until all records have come, calls that are not known to have ended are candidates, too.
  /// `said`: it was reported from calls alone. Such a report has no `alarms`, since the trace gets them once.
  report of_fault(const fault_state::call& f, fault_state::due what, bool said) {
    const bool recorded = what == fault_state::due::records, proved = recorded && !said && !is_flush_in_doubt(f);
    const std::vector<view> streams = views(f.result != fault_state::misaligned_address);
    std::vector<suspect> all;
    std::uint64_t more = 0;
    for (const view& v : streams) {
      add_candidates(v, f, recorded, proved, all);
      if (!recorded && v.order != issued_call::no_stream) more += order_.streams()[v.order].more;
    }
    add_ended(streams, f, all);
    put_others_last(order_.context_of_failed(f.correlation, f.context), all);
    sort(all);
    report r;
    std::string& s = r.text;
    append(s, "GPU fault: %.60s returned %.60s (%d)%s\n", plain(tables_.functions.name_of(f.function, false)).c_str(),
           plain(tables_.functions.result(false, f.result)).c_str(), f.result,
           !recorded ? "; CUPTI's records have not come yet, so this is what the host's calls say"
           : said    ? "; CUPTI's records have come now"
                     : "");
    if (all.empty())
      s += "  no work of the GPU was unfinished that is known of, so what faulted cannot be named\n";
    else if (all.size() == 1)
      s += "  the work that faulted:\n";
    else
      append(s, "  one of %zu pieces of work faulted, the most likely first:\n", all.size());
    finish(all, "fault", f.at_ns, r);
    if (more != 0)
      append(s, "  or one of %llu calls that were too many to be kept\n", static_cast<unsigned long long>(more));
    if (said && (what == fault_state::due::rest || all.empty())) s.clear();
    if (what == fault_state::due::calls) r.alarms.clear();
    return r;
  }

  /// Limits beyond which GPU work or a stage counts as hanging.
  struct bounds {
    std::int64_t bound_ns = 0;
    std::vector<std::string> except;  ///< names of kernels that may take any time, "*" at the end stands for any rest
    stage_watch::bounds open;
  };

  /// Whether something has made no progress for the bound: a forced flush must show what. `now_ns`: raw frame.
  bool is_suspicious(const bounds& b, std::int64_t now_ns) {
    settle();
    const bool host_waits = longest_wait_ns(now_ns) >= b.bound_ns;
    bool any = false;
    for (known_stream& s : order_.streams()) {
      s.suspected = !s.free && is_overdue(s, b, now_ns, host_waits);
      any = any || s.suspected;
    }
    return any || stuck_call(b, now_ns) != nullptr;
  }
  /// The report of what hangs, after a forced flush at `flushed_ns`. `answered`: CUPTI answered the flush, so all
  /// records of calls before `upto` have come. `alarms` is empty where nothing hangs.
  report of_hang(const bounds& b, std::uint32_t upto, bool answered, std::int64_t flushed_ns, std::int64_t now_ns) {
    if (answered) order_.all_recorded(upto, unfinished_ids());
    const bool host_waits = longest_wait_ns(now_ns) >= b.bound_ns;
    std::vector<view> all = views();
    std::vector<suspect> heads;
    for (const view& v : all) {
      if (v.order == issued_call::no_stream) continue;
      known_stream& s = order_.streams()[v.order];
      if (!std::exchange(s.suspected, false)) continue;
      // The flush brought ends that were not known, and lost the times of the work that it found unfinished.
      if (!is_overdue(s, b, now_ns, host_waits) || was_alive(s, b, flushed_ns)) {
        s.patient_since_ns = now_ns;
        continue;
      }
      s.alarmed = s.calls.front().correlation;
      if (!is_excepted(v, b)) heads.push_back(head_of(v, all, now_ns));
    }
    if (heads.empty()) add_stuck_call(b, now_ns, heads);
    report r;
    if (heads.empty()) return r;
    sort(heads);
    append(r.text, "GPU hang: nothing has ended for %s%s\n", seconds(heads.front().alarm.alarm.unfinished_ns).c_str(),
           answered ? "" : "; CUPTI does not answer, so this is what the host's calls say");
    finish(heads, "hang", now_ns, r);
    append_streams(all, now_ns, r.text);
    append_threads(now_ns, r.text);
    return r;
  }
  /// The report of stages that are open for too long. No text within block_pause_ns after the last one.
  report of_stages(const bounds& b, std::int64_t now_ns) {
    report r;
    std::vector<suspect> late = stages_.late(b.open, now_ns);
    if (late.empty()) return r;
    unsaid_ += late.size();
    append(r.text, "hang: stages have not ended: %zu\n", unsaid_);
    finish(late, "hang", now_ns, r);
    // Where a queue has grown too long, each look finds late stages: the trace has all of them, the text has not.
    if (said_ns_ != 0 && now_ns - said_ns_ < block_pause_ns) {
      r.text.clear();
      return r;
    }
    append_streams(views(), now_ns, r.text);
    append_threads(now_ns, r.text);
    unsaid_ = 0;
    said_ns_ = now_ns;
    return r;
  }
  /// What runs and waits now, as text: as of_hang, but for all streams with work that is not known to be done.
  /// `forced`: a forced flush was made and answered; `upto`: as in of_hang.
  std::string of_now(bool forced, std::uint32_t upto, std::int64_t now_ns) {
    if (forced) order_.all_recorded(upto, unfinished_ids());
    std::vector<view> all = views();
    std::string s;
    if (all.empty()) s += "no work of the GPU is known to be unfinished\n";
    if (!forced && !all.empty())
      s += "asked without --force: names of unfinished kernels are not known, only the calls that issued them\n";
    std::vector<suspect> heads;
    for (const view& v : all) heads.push_back(head_of(v, all, now_ns));
    sort(heads);
    if (!heads.empty()) append(s, "the head of each of %zu streams:\n", heads.size());
    report unused;
    finish(heads, "hang", now_ns, unused);
    s += unused.text;
    append_streams(all, now_ns, s);
    append_threads(now_ns, s);
    return s;
  }

  /// The process was stopped meanwhile (by a debugger, say): time without progress counts from `now_ns` on.
  void begin_anew(std::int64_t now_ns) noexcept {
    for (known_stream& s : order_.streams()) s.progress_ns = now_ns;
    stages_.begin_anew(now_ns);
    anew_ns_ = now_ns;
  }

 private:
  static constexpr std::size_t shown = 8;                     ///< suspects in the text block of an alarm
  static constexpr std::size_t delivered = 10000;             ///< suspects of an alarm as events
  static constexpr std::int64_t block_pause_ns = 5000000000;  ///< between two blocks of stages

  using entry = unfinished_work::entry;
  /// A stream with something on it that is not known to be done.
  struct view {
    std::uint32_t order = issued_call::no_stream;  ///< index in order_
    std::vector<const entry*> work;                ///< unfinished records, in order
    const issued_call* call = nullptr;             ///< the first call, where there is one
    /// Whether the head of the stream is `call`, which has no record, rather than the first of `work`.
    bool head_is_call() const noexcept {
      return call != nullptr && (work.empty() || is_before(call->correlation, id_of(*work.front())));
    }
  };
  static std::uint32_t id_of(const entry& e) noexcept { return static_cast<std::uint32_t>(e.work.correlation_id); }

  std::vector<std::uint32_t> unfinished_ids() const {
    std::vector<std::uint32_t> ids;
    unfinished_.for_each([&](const entry& e) { ids.push_back(id_of(e)); });
    std::sort(ids.begin(), ids.end());
    return ids;
  }

  /// `times_lost`: records without times may be of work that had ended long before. Not for a misaligned address, after
  /// which a wait for the culprit may have succeeded.
  std::vector<view> views(bool times_lost = false) {
    settle();
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<const entry*>> work;
    unfinished_.for_each([&](const entry& e) {  // which may be a wait
      if (e.work.is_gpu_work()) work[{e.work.context, e.work.stream}].push_back(&e);
    });
    std::vector<view> all;
    const std::vector<known_stream>& streams = order_.streams();
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const known_stream& s = streams[i];
      view v;
      v.order = static_cast<std::uint32_t>(i);
      if (!s.calls.empty()) v.call = &s.calls.front();
      const auto found = s.identified ? work.find({s.gpu_context, s.id}) : work.end();
      if (found != work.end()) {
        v.work = std::move(found->second);
        work.erase(found);
        const auto is_over = [&s, times_lost](const entry* e) {  // it was there before the host waited for it
          const bool launched = times_lost && !is_call_unknown(e->work) && e->work.call_thread == s.proved_thread;
          return s.any_proved && is_before(id_of(*e), s.proved) && (launched || e->seen_ns < s.proved_ns);
        };
        v.work.erase(std::remove_if(v.work.begin(), v.work.end(), is_over), v.work.end());
      }
      if (!s.free && (v.call != nullptr || !v.work.empty())) all.push_back(std::move(v));
    }
    for (auto& w : work) {
      view v;
      v.work = std::move(w.second);
      all.push_back(std::move(v));
    }
    for (view& v : all)  // nodes of one launch stay in the order in which CUPTI delivered them
      std::stable_sort(v.work.begin(), v.work.end(),
                       [](const entry* a, const entry* b) { return is_before(id_of(*a), id_of(*b)); });
    return all;
  }

  // Events of alarms

  /// `rank`, `candidates` and the times are set by `finish`.
  suspect of_entry(const entry& e) const {
    suspect s;
    pending_event& a = s.alarm;
    a = e.work;
    a.kind = event_kind::alarm;
    a.incomplete = false;
    alarm_data d{};
    if (e.work.kind == event_kind::kernel || e.work.kind == event_kind::graph_launch) {
      d.graph_node_id = e.work.kernel.graph_node_id;
      std::copy(std::begin(e.work.kernel.grid), std::end(e.work.kernel.grid), d.grid);
      std::copy(std::begin(e.work.kernel.block), std::end(e.work.kernel.block), d.block);
    } else if (e.work.kind == event_kind::memcpy) {
      d.graph_node_id = e.work.memcpy_.graph_node_id;
    } else if (e.work.kind == event_kind::memset) {
      d.graph_node_id = e.work.memset_.graph_node_id;
    }
    d.work = work_word(e.work.kind);
    a.alarm = d;
    note_before(e.work.context, e.work.stream, s);
    return s;
  }
  suspect of_call(const issued_call& c, const known_stream& on) const {
    suspect s;
    pending_event& a = s.alarm;
    a.kind = event_kind::alarm;
    a.process_id = tables_.process_id;
    a.name = a.call_name = tables_.functions.name_of(c.function, false);
    a.device = on.device;
    a.context = on.identified ? on.gpu_context : on.context;
    a.stream = on.id;
    a.correlation_id = c.correlation | std::uint64_t{tables_.ring.epoch(c.correlation)} << 32;
    a.joined = c.stage != 0 ? attribution::by_call : attribution::outside_stage;
    a.stage_id = c.stage;
    a.call_start_ns = c.begin_ns;
    a.call_thread = c.thread;
    alarm_data d{};
    d.work = work_word(c, a.name);
    a.alarm = d;
    if (on.identified) note_before(on.gpu_context, on.id, s);
    return s;
  }
  void note_before(std::uint32_t context, std::uint64_t stream, suspect& s) const {
    const finished_work f = order_.last_finished(context, stream);
    if (!f.any) return;
    s.before = f.name;
    s.before_ns = f.end_ns;
  }
  void set_why(suspect& s, const std::string& why) {
    s.alarm.alarm.why = tables_.strings.intern(why.data(), why.size());
  }
  std::uint32_t behind(const view& v) const {
    std::size_t n = v.head_is_call() ? v.work.size() : v.work.size() - 1;
    if (v.order != issued_call::no_stream) {
      const known_stream& s = order_.streams()[v.order];
      n = std::max(n, s.calls.size() + static_cast<std::size_t>(s.more) - (s.calls.empty() ? 0 : 1));
    }
    return static_cast<std::uint32_t>(std::min<std::size_t>(n, UINT32_MAX));
  }

  // Faults

  /// Whether it is proved that the first piece (head) of a stream's unfinished work was running when the context was
  /// lost. Suppose that the head had ended and another piece faulted: then the fault came after the launch of the first
  /// other piece, and after the end of the work before the head (`not_lost_ns`). A plain (not forced) flush brings the
  /// head's times up to times_kept_ns after the fault (docs/cupti.md, 51). If plain flushes followed one another
  /// closely from `not_lost_ns` + times_kept_ns at the latest, one would have brought them (one that the fault held up
  /// must have begun after `not_lost_ns`); none did, so the head was running.
  bool is_sharp(const view& v, const fault_state::call& f) const noexcept {
    std::int64_t not_lost_ns = INT64_MAX;
    for (std::size_t i = 1; i < v.work.size(); ++i) not_lost_ns = std::min(not_lost_ns, v.work[i]->called_ns());
    const pending_event& head = v.work.front()->work;
    const finished_work before = order_.last_finished(head.context, head.stream);
    // After a misaligned address, the work that ended last may be the culprit.
    if (before.any && f.result != fault_state::misaligned_address) not_lost_ns = std::max(not_lost_ns, before.end_ns);
    return f.flushed_since_ns != 0 && f.flushed_since_ns <= not_lost_ns + fault_state::times_kept_ns(f.result) &&
           not_lost_ns <= f.held_up_since_ns;
  }
  /// Whether a launch, rather than the fault, may have held up the last flush.
  bool is_flush_in_doubt(const fault_state::call& f) const {
    constexpr std::int64_t flush_ns = 1000000;
    bool any = false;
    unfinished_.for_each([&](const entry& e) {
      any = any || (e.called_ns() >= f.held_up_since_ns && e.called_ns() - f.held_up_since_ns < flush_ns);
    });
    return any;
  }
  /// What may have faulted on one stream, in order.
  struct piece {
    std::uint32_t id;
    const entry* record;
    const issued_call* call;  ///< where there is no record
  };
  /// Unfinished records and, unless all records have come, calls without one that are not known to be done.
  std::vector<piece> pieces_of(const view& v, const fault_state::call& f, bool recorded) const {
    std::vector<piece> all;
    for (const entry* e : v.work)
      if (e->called_ns() <= f.at_ns) all.push_back({id_of(*e), e, nullptr});
    if (recorded || v.order == issued_call::no_stream) return all;
    const auto in_order = [](const piece& a, const piece& b) { return is_before(a.id, b.id); };
    const std::vector<piece> records = all;
    const known_stream& s = order_.streams()[v.order];
    for (std::size_t i = 0; i < s.calls.size(); ++i) {
      const piece one{s.calls[i].correlation, nullptr, &s.calls[i]};
      if (one.call->leaves_record() && one.call->begin_ns <= f.at_ns &&
          !std::binary_search(records.begin(), records.end(), one, in_order))
        all.push_back(one);
    }
    std::stable_sort(all.begin(), all.end(), in_order);
    return all;
  }
  void add_candidates(const view& v, const fault_state::call& f, bool recorded, bool proved,
                      std::vector<suspect>& all) {
    const std::vector<piece> pieces = pieces_of(v, f, recorded);
    if (pieces.empty()) return;
    const bool waits = v.head_is_call() && !v.call->leaves_record();
    const bool sharp = recorded && !waits && (v.work.size() == 1 || (proved && is_sharp(v, f)));
    for (std::size_t i = 0; i < pieces.size() && (i == 0 || !sharp); ++i) {
      const bool is_call = pieces[i].call != nullptr;
      suspect s = is_call ? of_call(*pieces[i].call, order_.streams()[v.order]) : of_entry(*pieces[i].record);
      const bool is_new = !is_call && s.alarm.alarm.work.size == 6 && s.alarm.alarm.work.data[0] == 'k' &&
                          !order_.has_finished(s.alarm.name);
      s.group = (waits ? 4u : 0u) + (i == 0 ? 0u : 2u) + (is_new ? 0u : 1u);
      s.alarm.alarm.behind = i == 0 ? behind(v) : static_cast<std::uint32_t>(pieces.size() - i - 1);
      s.alarm.alarm.result = f.result;
      std::string why = is_call ? "known from its call alone: " : "";
      why += i == 0 ? (waits ? "the first work of its stream behind a wait that is not known to be over"
                             : "head of its stream: all before it is done")
                    : "behind the head of its stream, the times of whose work may be lost";
      if (sharp && pieces.size() > 1) why += ", and no times of work behind it were lost";
      if (is_new) why += "; no kernel of its name has ended yet";
      set_why(s, why);
      if (i != 0) s.before = {};
      all.push_back(std::move(s));
    }
  }
  /// After a misaligned address the culprit itself may have times; a wait for it may even have succeeded (3 runs of 4
  /// in graphs, some with eight busy streams; H100 and H200, docs/cupti.md, 52). So this adds the kernel that ended
  /// last on each stream, unless the unfinished work was launched after that end.
  void add_ended(const std::vector<view>& all_views, const fault_state::call& f, std::vector<suspect>& all) {
    constexpr std::int64_t recent_ns = 1000000000;
    if (f.result != fault_state::misaligned_address) return;
    std::int64_t first_ns = f.at_ns;
    for (const view& v : all_views)
      if (!v.work.empty()) first_ns = std::min(first_ns, v.work.front()->work.call_start_ns);
    if (first_ns == f.at_ns) first_ns -= recent_ns;  // no work is known to be unfinished, though calls may be
    order_.for_each_finished([&](std::uint32_t context, std::uint64_t stream, const finished_work& last) {
      const auto of_stream = std::find_if(all_views.begin(), all_views.end(), [&](const view& v) {
        return !v.work.empty() && v.work.front()->work.context == context && v.work.front()->work.stream == stream;
      });
      const std::int64_t since_ns =
          of_stream != all_views.end() ? of_stream->work.front()->work.call_start_ns : first_ns;
      if (last.kind != event_kind::kernel || last.end_ns < since_ns) return;
      suspect s;
      pending_event& a = s.alarm;
      a.kind = event_kind::alarm;
      a.process_id = tables_.process_id;
      a.name = last.name;
      a.device = last.device;
      a.context = context;
      a.stream = stream;
      a.correlation_id = last.correlation | std::uint64_t{tables_.ring.epoch(last.correlation)} << 32;
      correlation_ring::call call{};
      a.joined = tables_.ring.find(last.correlation, call);
      if (correlation_ring::is_found(a.joined)) {
        a.stage_id = call.stage;
        a.call_start_ns = static_cast<std::int64_t>(tables_.scale.to_ns(call.begin_ticks));
        a.call_thread = call.thread_index;
        a.call_name = tables_.functions.name_of(call.function, false);
      }
      alarm_data d{};
      d.work = work_word(last.kind);
      d.graph_node_id = last.graph_node_id;
      d.result = f.result;
      a.alarm = d;
      s.group = 1;
      set_why(s, "ended last on its stream: of a misaligned address the culprit itself may have times");
      all.push_back(std::move(s));
    });
  }

  // Hangs

  std::int64_t quiet_ns(const known_stream& s, std::int64_t now_ns) const {
    std::int64_t last = s.progress_ns;
    if (s.identified) {
      const finished_work f = order_.last_finished(s.gpu_context, s.id);
      if (f.any) last = std::max(last, f.end_ns);
    }
    return now_ns - last;
  }
  bool is_overdue(const known_stream& s, const bounds& b, std::int64_t now_ns, bool host_waits) const {
    if (s.calls.empty() || s.alarmed == s.calls.front().correlation) return false;
    if (!host_waits && !s.leaves_records()) return false;
    // A wait is held up only where what it waits for is, which may be a wait, too. Counted, since a call that is read
    // late may seem to close a circle.
    std::size_t left = order_.streams().size();
    for (const known_stream* on = order_.awaited_by(s); on != nullptr && left != 0; on = order_.awaited_by(*on), --left)
      if (quiet_ns(*on, now_ns) < b.bound_ns) return false;
    if (s.patient_since_ns == 0) return quiet_ns(s, now_ns) >= b.bound_ns;
    const std::size_t lost = s.identified ? unfinished_.count(s.gpu_context, s.id) : 0;
    return (now_ns - s.patient_since_ns) / (static_cast<std::int64_t>(lost) + 1) >= b.bound_ns;
  }
  /// Whether a record that the flush brought shows that work ended within the bound before the flush.
  bool was_alive(const known_stream& s, const bounds& b, std::int64_t flushed_ns) const {
    return quiet_ns(s, flushed_ns) < b.bound_ns;
  }
  static bool is_excepted(const view& v, const bounds& b) {
    if (v.head_is_call()) return false;
    const text name = v.work.front()->work.name;
    return is_one_of(b.except, std::string_view(name.data, name.size));
  }
  /// The view of another stream whose head holds up the head of `v`, nullptr where there is none.
  const view* cause_of(const view& v, const std::vector<view>& all) const {
    if (v.order == issued_call::no_stream) return nullptr;
    std::uint32_t on = issued_call::no_stream;
    if (v.head_is_call() && v.call->what == role::wait_event)
      on = v.call->awaited;
    else if (!v.head_is_call() || v.call->leaves_record())
      on = order_.implied_wait(v.order);
    for (const view& other : all)
      if (on != issued_call::no_stream && other.order == on) return &other;
    return nullptr;
  }
  suspect head_of(const view& v, const std::vector<view>& all, std::int64_t now_ns) {
    const bool is_call = v.head_is_call();
    suspect s = is_call ? of_call(*v.call, order_.streams()[v.order]) : of_entry(*v.work.front());
    s.alarm.alarm.behind = behind(v);
    const std::int64_t since = v.order != issued_call::no_stream ? quiet_ns(order_.streams()[v.order], now_ns)
                                                                 : now_ns - v.work.front()->seen_ns;
    s.alarm.alarm.unfinished_ns = std::max<std::int64_t>(since, 0);
    const view* const cause = cause_of(v, all);
    s.group = cause != nullptr ? 1 : 0;
    std::string why = "head of its stream";
    if (cause != nullptr) {
      if (!is_call || v.call->what != role::wait_event) s.alarm.alarm.work = text{"implicit_wait", 13};
      why = is_call && v.call->what == role::wait_event ? "waits for an event recorded behind " : "waits for ";
      why += describe_head(*cause);
    } else if (is_call && v.call->what == role::wait_value) {
      why = what_is_awaited(tables_.functions.name_of(v.call->function, false), *v.call);
    } else if (is_call && v.call->what == role::host_function) {
      why = "a function of the host that has not returned";
    }
    set_why(s, why);
    return s;
  }
  std::string describe_head(const view& v) const {
    std::string s;
    text name{};
    std::uint64_t stream = 0;
    if (v.head_is_call()) {
      name = tables_.functions.name_of(v.call->function, false);
      stream = order_.streams()[v.order].id;
    } else {
      name = v.work.front()->work.name;
      stream = v.work.front()->work.stream;
    }
    append(s, "%.120s on stream %llu", plain(name).c_str(), static_cast<unsigned long long>(stream));
    return s;
  }

  // Threads of the host

  struct standing {
    std::uint32_t function;
    std::int64_t since_ns;
  };
  /// The call that a thread is in; `function` is 0 where it is in none.
  standing call_of(const traced_thread& t, std::int64_t now_ns) const {
    const std::uint64_t word = t.in_call.load(std::memory_order_relaxed);
    if (word == 0 || t.state.load(std::memory_order_relaxed) != thread_registry::in_use) return {0, now_ns};
    return {traced_thread::function_in(word), static_cast<std::int64_t>(tables_.scale.to_ns(traced_thread::begin_in(
                                                  word, clock::ticks(tables_.scale.use_counter))))};
  }
  bool is_host_wait(std::uint32_t function) const {
    const known_function* f = tables_.functions.find(function, false);
    return f != nullptr && (f->use.what == role::stream_wait || f->use.what == role::event_wait ||
                            f->use.what == role::context_wait || f->makes_gpu_work);
  }
  std::int64_t longest_wait_ns(std::int64_t now_ns) {
    std::int64_t longest = 0;
    threads_.for_each([&](traced_thread& t) {
      const standing c = call_of(t, now_ns);
      if (c.function != 0 && is_host_wait(c.function)) longest = std::max(longest, now_ns - c.since_ns);
    });
    return longest;
  }
  /// A thread that has been in a call for the bound, while no GPU work ended and none is unfinished; or nullptr. A
  /// thread that waits for the GPU is none while a stream has something that may hold it up.
  traced_thread* stuck_call(const bounds& b, std::int64_t now_ns) {
    bool streams_wait = false;
    for (const known_stream& s : order_.streams()) {
      if (s.leaves_records()) return nullptr;
      streams_wait = streams_wait || !s.calls.empty();
    }
    if (now_ns - std::max(order_.newest_end_ns(), anew_ns_) < b.bound_ns) return nullptr;
    traced_thread* found = nullptr;
    threads_.for_each([&](traced_thread& t) {
      const standing c = call_of(t, now_ns);
      const std::uint64_t word = t.in_call.load(std::memory_order_relaxed);
      if (c.function == 0 || (streams_wait && is_host_wait(c.function))) return;
      if (now_ns - c.since_ns >= b.bound_ns && t.alarmed_call != word) found = &t;
    });
    return found;
  }
  void add_stuck_call(const bounds& b, std::int64_t now_ns, std::vector<suspect>& heads) {
    traced_thread* const t = stuck_call(b, now_ns);
    if (t == nullptr) return;
    const standing c = call_of(*t, now_ns);
    t->alarmed_call = t->in_call.load(std::memory_order_relaxed);
    suspect s;
    pending_event& a = s.alarm;
    a.kind = event_kind::alarm;
    a.process_id = tables_.process_id;
    a.name = a.call_name = tables_.functions.name_of(c.function, false);
    a.stage_id = t->in_stage.load(std::memory_order_relaxed);
    a.joined = a.stage_id != 0 ? attribution::by_call : attribution::outside_stage;
    a.call_start_ns = c.since_ns;
    a.call_thread = t->index;
    alarm_data d{};
    d.work = text{"call", 4};
    d.unfinished_ns = now_ns - c.since_ns;
    a.alarm = d;
    set_why(s, "a thread of the host has not returned from it, and no work of the GPU is known to be unfinished");
    heads.push_back(std::move(s));
  }

  // The block

  void finish(std::vector<suspect>& all, const char* what, std::int64_t now_ns, report& r) {
    for (std::size_t i = 0; i < all.size() && i < delivered; ++i) {
      suspect& s = all[i];
      s.alarm.start_ns = s.alarm.end_ns = now_ns;
      s.alarm.alarm.what = {what, static_cast<std::uint32_t>(std::strlen(what))};
      s.alarm.alarm.rank = static_cast<std::uint32_t>(i + 1);
      s.alarm.alarm.candidates = static_cast<std::uint32_t>(all.size());
      r.alarms.push_back(s.alarm);
      if (i < shown) append_suspect(s, all.size() > 1 ? i + 1 : 0, now_ns, r.text);
    }
    if (all.size() > shown) append(r.text, "  and %zu more, in the trace\n", all.size() - shown);
  }
  void append_suspect(const suspect& s, std::size_t number, std::int64_t now_ns, std::string& out) {
    const event e = delivery_.complete(s.alarm);
    const alarm_data& d = e.alarm;
    std::string first;
    if (number != 0)
      append(first, "  %zu. ", number);
    else
      first += "  ";
    append(first, "%.*s %.200s", static_cast<int>(d.work.size), d.work.data, plain(e.name).c_str());
    if (d.grid[0] != 0)
      append(first, "\n     grid %ux%ux%u, block %ux%ux%u", d.grid[0], d.grid[1], d.grid[2], d.block[0], d.block[1],
             d.block[2]);
    if (d.graph_node_id != 0)
      append(first, "%snode %llu of a graph", d.grid[0] != 0 ? ", " : "\n     ",
             static_cast<unsigned long long>(d.graph_node_id & 0xffffffffu));
    out += first + '\n';
    const std::string_view work(d.work.data, d.work.size);
    const bool is_stage = work == "stage";
    if (work != "call" && !is_stage)
      append(out, "     stream %llu, device %u; %u behind it\n", static_cast<unsigned long long>(e.stream), e.device,
             d.behind);
    if (is_call_unknown(e)) {
      out += "     its call is not known, so neither are its thread, stage and requests\n";
    } else {
      append(out, "     %.60s on thread %u%s, %s%s\n", is_stage ? "open" : plain(e.call_name).c_str(), e.thread_id,
             name_of_thread(e.thread_id).c_str(), seconds(now_ns - s.alarm.call_start_ns).c_str(),
             is_stage ? " at least" : " ago");
      out += "     " + belonging(e, stages_around(e.stage_id)) + '\n';
    }
    if (d.why.size != 0) append(out, "     %.200s\n", plain(d.why).c_str());
    if (s.before.size != 0)
      append(out, "     last to end before it: %.120s, %s ago\n", plain(s.before).c_str(),
             seconds(now_ns - s.before_ns).c_str());
  }
  /// The stages around `stage`, as text: `stage` itself may be a library's NVTX range around its launch (NCCL's,
  /// say), these are the program's.
  std::string stages_around(std::uint64_t stage) const {
    std::string s;
    const known_stage* outer = tables_.stages.parent_of(stage);
    for (int n = 0; outer != nullptr && n < 4; ++n, outer = tables_.stages.parent_of(outer->id))
      append(s, " in \"%.60s\"", plain(outer->name_text()).c_str());
    return s;
  }
  /// What finished last on the streams that have something unfinished.
  void append_streams(const std::vector<view>& all, std::int64_t now_ns, std::string& out) const {
    std::size_t lines = 0;
    for (const view& v : all) {
      if (v.order == issued_call::no_stream || lines == shown) continue;
      const known_stream& s = order_.streams()[v.order];
      if (!s.identified) continue;
      const finished_work f = order_.last_finished(s.gpu_context, s.id);
      if (!f.any) continue;
      if (lines++ == 0) out += "  what ended last:\n";
      append(out, "     stream %llu: %.120s, %s ago\n", static_cast<unsigned long long>(s.id), plain(f.name).c_str(),
             seconds(now_ns - f.end_ns).c_str());
    }
  }
  void append_threads(std::int64_t now_ns, std::string& out) {
    std::size_t lines = 0;
    threads_.for_each([&](traced_thread& t) {
      const standing c = call_of(t, now_ns);
      if (c.function == 0 || now_ns - c.since_ns < 1000000) return;
      if (lines++ >= 2 * shown) return;
      if (lines == 1) out += "  threads of the host:\n";
      append(out, "     %u%s: in %.60s for %s", t.thread_id, name_of_thread(t.thread_id).c_str(),
             plain(tables_.functions.name_of(c.function, false)).c_str(), seconds(now_ns - c.since_ns).c_str());
      const known_stage* const stage = tables_.stages.find(t.in_stage.load(std::memory_order_relaxed));
      if (stage != nullptr)
        append(out, ", stage \"%.100s\"%s", plain(stage->name_text()).c_str(), stages_around(stage->id).c_str());
      out += '\n';
    });
    if (lines > 2 * shown) append(out, "     and %zu more\n", lines - 2 * shown);
    if (lines == 0) out += "  no thread of the host is in a call of the driver\n";
  }
  std::string name_of_thread(std::uint32_t id) {
    std::string s;
    threads_.for_each([&](traced_thread& t) {
      if (t.thread_id != id || t.name == nullptr || !s.empty()) return;
      append(s, " \"%.60s\"", plain({t.name, static_cast<std::uint32_t>(std::strlen(t.name))}).c_str());
    });
    return s;
  }

  event_tables& tables_;
  stream_order& order_;
  const unfinished_work& unfinished_;
  delivery& delivery_;
  thread_registry& threads_;
  std::int64_t anew_ns_ = 0;
  stage_watch stages_;
  std::size_t unsaid_ = 0;    ///< stages that no block has counted yet
  std::int64_t said_ns_ = 0;  ///< when the last block of stages was written
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
