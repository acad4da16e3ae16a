// SPDX-License-Identifier: Apache-2.0
// The sinks of a trace and what became of the events given to each. A sink that throws is closed and reported, one that
// never returns is left with the thread that called it; the others go on. Collector's thread, but for `add` before the
// first event.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cutrace/collect/reporter.hpp>
#include <cutrace/sink.hpp>
#include <deque>
#include <exception>
#include <iterator>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// Descriptions for sinks that are added later. A process may run for days: of streams the newest ones are kept, and of
/// threads the newest name of each that runs, or that ended not long ago, since its GPU work may still come.
/// Collector's thread.
class known_descriptions {
 public:
  static constexpr std::size_t limit = 8192;        ///< of threads, and of all else
  static constexpr std::size_t ended_limit = 1024;  ///< threads that have ended

  void add(const event& e) {
    if (e.kind == event_kind::thread) {
      if (threads_.size() < limit || threads_.count(e.thread_id) != 0) threads_[e.thread_id] = {e, false};
      return;
    }
    if (others_.size() == limit) forget_streams();
    if (others_.size() < limit) others_.push_back(e);
  }
  void thread_ended(std::uint32_t id) {
    const auto found = threads_.find(id);
    if (found == threads_.end() || std::exchange(found->second.ended, true)) return;
    ended_.push_back(id);
    if (ended_.size() <= ended_limit) return;
    const auto oldest = threads_.find(ended_.front());
    ended_.pop_front();
    // The system may have given its number to another thread.
    if (oldest != threads_.end() && oldest->second.ended) threads_.erase(oldest);
  }
  std::vector<event> all() const {
    std::vector<event> list(others_);
    for (const auto& t : threads_) list.push_back(t.second.description);
    return list;
  }

 private:
  struct known_thread {
    event description;
    bool ended;
  };
  /// The older half of the streams.
  CUTRACE_NOINLINE void forget_streams() {
    const auto is_stream = [](const event& e) { return e.kind == event_kind::stream; };
    std::ptrdiff_t left = std::count_if(others_.begin(), others_.end(), is_stream) / 2;
    const auto is_old = [&](const event& e) { return is_stream(e) && left-- > 0; };
    others_.erase(std::remove_if(others_.begin(), others_.end(), is_old), others_.end());
  }

  std::vector<event> others_;
  std::unordered_map<std::uint32_t, known_thread> threads_;  ///< by the system's number
  std::deque<std::uint32_t> ended_;                          ///< the oldest first
};

/// What was counted since `before`, of the totals `now`; all that is no count is that of `now`.
CUTRACE_NOINLINE inline stats counted_since(const stats& before, stats now) noexcept {
  const auto subtract = [](auto& from, const auto& what) {
    for (std::size_t i = 0; i < std::size(from); ++i) from[i] -= what[i];
  };
  now.produced -= before.produced - before.pending;  // what was pending then is delivered later
  now.delivered -= before.delivered;
  now.lacking -= before.lacking;
  now.launches_seen -= before.launches_seen;
  now.gpu_records_seen -= before.gpu_records_seen;
  subtract(now.lost, before.lost);
  subtract(now.quality_of, before.quality_of);
  subtract(now.unattributed_by, before.unattributed_by);
  subtract(now.by_kind, before.by_kind);
  return now;
}

/// A stretch of recorded time that only the sinks of one session get; raw frame (clock.hpp).
struct window_part {
  bool any = false;
  std::uint64_t start_ns = 0, end_ns = 0;
};

/// What the sinks of a session that ends get beside what all sinks get.
struct last_words {
  const event* window = nullptr;         ///< an event for them alone, or nullptr
  std::vector<std::uint32_t> no_record;  ///< ids of the trace's calls whose GPU records are still to come
};

/// Adds an event that one sink alone got to the totals for it.
inline void count_one(stats& to, const event& e) noexcept {
  ++to.produced;
  ++to.delivered;
  ++to.by_kind[static_cast<std::size_t>(e.kind)];
  to.quality_of[static_cast<std::size_t>(quality::late)] += e.late;
}

class sink_set {
 public:
  explicit sink_set(reporter& r) : reporter_(r) {}

  /// `session`: whose sink it is, so that it can leave with its session. `before`: totals of the trace, of which the
  /// sink has seen nothing. `earlier`: ids of calls that it does not get and whose GPU records are to come; sorted.
  CUTRACE_NOINLINE void add(sink* s, std::uint64_t session, const stats& before, std::vector<std::uint32_t> earlier) {
    member m;
    m.target = s;
    m.session = session;
    m.before = before;
    m.earlier = std::move(earlier);
    m.order = ++added_;
    std::snprintf(m.totals.name, sizeof(m.totals.name), "%s", s->name());
    finished_.reserve(finished_.size() + members_.size() + 1);  // closing it must not need memory
    members_.push_back(std::move(m));
  }
  std::size_t size() const noexcept { return members_.size(); }
  bool has(const sink* s) const noexcept {
    return std::any_of(members_.begin(), members_.end(), [s](const member& m) { return m.target == s; });
  }

  /// Calls of sinks that began or ended so far. Any thread.
  std::uint64_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }
  /// No sink is called again: one of them holds up the collector, and their owners are about to go. Any thread.
  void abandon() noexcept { abandoned_.store(true, std::memory_order_release); }
  bool busy() const noexcept { return current_.load(std::memory_order_acquire) != nullptr; }
  /// Name of the sink that is being called, or an empty text. Any thread, while the collector is held up.
  const char* current() const noexcept {
    const char* name = current_.load(std::memory_order_acquire);
    return name != nullptr ? name : "";
  }

  /// Takes the sinks away from the collector's thread, which hangs in one since `calls()` was `call`: if that sink ever
  /// returns, the thread sleeps forever. False where the sink has returned. The caller, another thread, must start one
  /// that calls go_on. Neither the sink nor what it was given may be destroyed from here on.
  bool leave(std::uint64_t call) noexcept {
    if (call % 2 == 0 || !calls_.compare_exchange_strong(call, call + 1, std::memory_order_acq_rel)) return false;
    left_one_.store(true, std::memory_order_release);
    return true;
  }
  /// Whether some thread was left hanging in a sink. Any thread.
  bool left_one() const noexcept { return left_one_.load(std::memory_order_acquire); }
  /// To be called first on the new thread: the sink has failed, and the sinks behind it get the events that it was
  /// given.
  CUTRACE_NOINLINE void go_on() noexcept {
    current_.store(nullptr, std::memory_order_release);
    member& m = members_[at_];
    m.totals.failed = true;
    m.totals.lost += given_.size;
    std::snprintf(m.totals.failure, sizeof(m.totals.failure), "it has not returned");
    if (given_.size != 0) write_from(at_ + 1);
  }

  void write(const event* events, std::size_t n) noexcept {
    given_ = {events, n};
    write_from(0);
  }
  /// For the newest sink only: the descriptions from before it was added.
  void write_to_last(const event* events, std::size_t n) noexcept {
    given_ = {events, n};
    if (!members_.empty() && n != 0) write_from(members_.size() - 1);
  }
  void flush() noexcept {
    for (at_ = 0; at_ < members_.size(); ++at_) {
      member& m = members_[at_];
      if (guarded(m, [](sink& s) { s.flush(); })) count_left_out(m);
    }
  }

  /// Closes the sinks of one session, each with `summary`, whose totals are those of the trace: a sink gets what was
  /// counted since it was added, so that its file can be compared with them. GPU work of its time that is not in it is
  /// counted as lost: it ends later, for the sinks that stay.
  CUTRACE_NOINLINE void close(std::uint64_t session, trace_summary summary, const last_words& last) noexcept {
    std::vector<std::string> notes;
    std::vector<const char*> lines;
    try {
      notes = reporter_.notes();
      lines.push_back(nullptr);
      for (const std::string& n : notes) lines.push_back(n.c_str());
    } catch (const std::bad_alloc&) {  // the files end without notes
      lines.clear();
    }
    for (at_ = 0; at_ < members_.size();) {
      member& m = members_[at_];
      if (m.session != session) {
        ++at_;
        continue;
      }
      trace_summary since = summary;
      since.totals = counted_since(m.before, summary.totals);
      if (last.window != nullptr) {
        count_one(since.totals, *last.window);
        write_one(m, last.window, 1);
      }
      m.no_record = 0;
      for (const std::uint32_t id : last.no_record)
        m.no_record += std::binary_search(m.earlier.begin(), m.earlier.end(), id) ? 0 : 1;
      m.earlier = {};  // `finished_` has no memory for it
      m.unfinished = since.totals.pending;
      lose_rest(m, since.totals);
      char line[200];
      std::snprintf(line, sizeof(line),
                    "session: %llu pieces of GPU work had not ended when the session did, or their records were still "
                    "to come: they are counted as lost (unpaired)",
                    static_cast<unsigned long long>(m.no_record + m.unfinished));
      const std::size_t leave_out = m.no_record + m.unfinished == 0 ? 1 : 0;
      if (!lines.empty()) {
        lines[0] = line;
        since.notes = lines.data() + leave_out;
        since.note_count = static_cast<std::uint32_t>(lines.size() - leave_out);
      }
      if (guarded(m, [&](sink& s) { s.close(since); })) count_left_out(m);
      finish(m);
      members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(at_));
    }
  }

  /// Statistics of all sinks, those that have closed included, in the order in which they came. `session`: of its sinks
  /// alone; 0: of all.
  CUTRACE_NOINLINE void fill(stats& s, std::uint64_t session = 0) const noexcept {
    s.sink_count = 0;
    auto done = finished_.begin();
    auto open = members_.begin();
    while (s.sink_count < sink_limit && (done != finished_.end() || open != members_.end())) {
      const bool older = open == members_.end() || (done != finished_.end() && done->order < open->order);
      const member& next = older ? *done++ : *open++;
      if (session == 0 || session == next.session) s.sinks[s.sink_count++] = next.totals;
      if (session == next.session && s.sink_count == 1) lose_rest(next, s);
    }
  }

 private:
  /// Marks one call of a sink: threads that wait for the collector see its progress, or the sink in which it hangs.
  struct call_mark {
    call_mark(sink_set& s, const char* name) noexcept : set(s) {
      set.current_.store(name, std::memory_order_release);
      number = set.calls_.fetch_add(1, std::memory_order_acq_rel) + 1;
    }
    ~call_mark() {
      if (CUTRACE_UNLIKELY(!set.calls_.compare_exchange_strong(number, number + 1, std::memory_order_acq_rel)))
        for (;;) ::pause();  // see leave: another thread has gone on with all that lies on this one's stack
      set.current_.store(nullptr, std::memory_order_release);
    }
    sink_set& set;
    std::uint64_t number;  ///< odd
  };

  struct member {
    sink* target = nullptr;
    std::uint64_t session = 0;
    std::uint64_t order = 0;
    std::uint64_t left_out = 0;  ///< events that the sink itself left out, as counted so far
    bool settled = false;        ///< it failed in this call, and sink::arrived has counted its events
    sink_stats totals{};
    stats before{};                               ///< of the trace, when the sink was added
    std::vector<std::uint32_t> earlier;           ///< see add
    std::uint64_t no_record = 0, unfinished = 0;  ///< GPU work of the sink's time that it did not get
  };

  /// At its end a sink has no pending events: what it did not get is lost.
  static void lose_rest(const member& m, stats& s) noexcept {
    s.produced += m.no_record;
    s.pending -= std::min(s.pending, m.unfinished);
    s.lost[static_cast<std::size_t>(loss_cause::unpaired)] += m.no_record + m.unfinished;
  }

  void finish(const member& m) {
    if (finished_.size() == sink_limit) {  // the first ones stay
      if (finished_.back().order < m.order) return;
      finished_.pop_back();
    }
    auto at = finished_.end();
    while (at != finished_.begin() && std::prev(at)->order > m.order) --at;
    finished_.insert(at, m);
  }

  void write_from(std::size_t first) noexcept {
    for (at_ = first; at_ < members_.size(); ++at_) write_one(members_[at_], given_.data, given_.size);
    given_ = {};
  }
  void write_one(member& m, const event* events, std::size_t n) noexcept {
    m.totals.delivered += n;
    m.settled = false;
    if (guarded(m, [&](sink& s) { s.write(event_view{events, n}); })) {
      m.totals.written += n;
      count_left_out(m);
    } else if (!m.settled) {
      m.totals.lost += n;
    }
  }

  /// What the sink itself did not write is lost, too.
  void count_left_out(member& m) noexcept {
    const std::uint64_t fresh = std::min(m.target->left_out() - m.left_out, m.totals.written);
    if (CUTRACE_LIKELY(fresh == 0)) return;
    m.totals.written -= fresh;
    m.totals.lost += fresh;
    if (m.left_out == 0) {
      std::snprintf(m.totals.failure, sizeof(m.totals.failure), "%s", m.target->left_out_because());
      char line[512];
      std::snprintf(line, sizeof(line), "sink '%s' leaves events out from now on: %s", m.totals.name, m.totals.failure);
      reporter_.report("sink", line);
    }
    m.left_out += fresh;
  }

  template <class Action>
  bool guarded(member& m, Action action) noexcept {
    if (m.totals.failed || abandoned_.load(std::memory_order_acquire)) return false;
    sink& target = *m.target;
    try {
      const call_mark mark(*this, target.name());  // a literal; from here on another thread may change the members
      action(target);
      return true;
    } catch (const std::exception& e) {
      fail(m, e.what());
    } catch (...) {
      fail(m, "threw something that is no std::exception");
    }
    return false;
  }

  CUTRACE_NOINLINE void fail(member& m, const char* why) noexcept {
    m.totals.failed = true;
    const std::uint64_t arrived = m.target->arrived();
    m.settled = arrived != UINT64_MAX;
    if (m.settled) {
      m.totals.written = std::min(arrived, m.totals.delivered);
      m.totals.lost = m.totals.delivered - m.totals.written;
    }
    std::snprintf(m.totals.failure, sizeof(m.totals.failure), "%s", why);
    char line[512];
    std::snprintf(line, sizeof(line), "sink '%s' failed and gets no more events: %s", m.totals.name, why);
    reporter_.report("sink", line);
  }

  reporter& reporter_;
  std::atomic<std::uint64_t> calls_{0};
  std::atomic<const char*> current_{nullptr};
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> left_one_{false};
  std::vector<member> members_;
  std::size_t at_ = 0;            ///< the member that is being called
  event_view given_{};            ///< what it is given, if anything
  std::vector<member> finished_;  ///< closed ones; their targets may be gone
  std::uint64_t added_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
