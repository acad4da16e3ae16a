// SPDX-License-Identifier: Apache-2.0
// The sinks of a trace and what became of the events given to each. A sink that throws is closed and reported; the
// others go on. Collector's thread, but for `add` before the first event.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cutrace/collect/reporter.hpp>
#include <cutrace/sink.hpp>
#include <exception>
#include <iterator>
#include <memory>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class sink_set {
 public:
  explicit sink_set(reporter& r) : reporter_(r) {}

  /// `session`: whose sink it is, so that it can leave with its session.
  CUTRACE_NOINLINE void add(sink* s, std::uint64_t session) {
    member m;
    m.target = s;
    m.session = session;
    m.order = ++added_;
    std::snprintf(m.totals.name, sizeof(m.totals.name), "%s", s->name());
    finished_.reserve(finished_.size() + members_.size() + 1);  // closing it must not need memory
    members_.push_back(m);
  }
  std::size_t size() const noexcept { return members_.size(); }

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

  void write(const event* events, std::size_t n) noexcept {
    for (member& m : members_) write_one(m, events, n);
  }
  /// For the newest sink only: what was described before it came.
  void write_to_last(const event* events, std::size_t n) noexcept {
    if (!members_.empty() && n != 0) write_one(members_.back(), events, n);
  }
  void flush() noexcept {
    for (member& m : members_)
      if (guarded(m, [&] { m.target->flush(); })) count_left_out(m);
  }

  /// Closes the sinks of one session; `close_with(sink stats so far)` makes the summary.
  CUTRACE_NOINLINE void close(std::uint64_t session, const trace_summary& summary) noexcept {
    for (std::size_t i = 0; i < members_.size();) {
      member& m = members_[i];
      if (m.session != session) {
        ++i;
        continue;
      }
      if (guarded(m, [&] { m.target->close(summary); })) count_left_out(m);
      finish(m);
      members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  /// Statistics of all sinks, those that have closed included, in the order in which they came.
  CUTRACE_NOINLINE void fill(stats& s) const noexcept {
    s.sink_count = 0;
    auto done = finished_.begin();
    auto open = members_.begin();
    while (s.sink_count < sink_limit && (done != finished_.end() || open != members_.end())) {
      const bool older = open == members_.end() || (done != finished_.end() && done->order < open->order);
      s.sinks[s.sink_count++] = older ? (done++)->totals : (open++)->totals;
    }
  }

 private:
  /// Notifies who waits for the collector: of progress, or where it stands.
  struct call_mark {
    call_mark(sink_set& s, const char* name) noexcept : set(s) {
      set.current_.store(name, std::memory_order_release);
      set.calls_.fetch_add(1, std::memory_order_relaxed);
    }
    ~call_mark() {
      set.calls_.fetch_add(1, std::memory_order_relaxed);
      set.current_.store(nullptr, std::memory_order_release);
    }
    sink_set& set;
  };

  struct member {
    sink* target = nullptr;
    std::uint64_t session = 0;
    std::uint64_t order = 0;
    std::uint64_t left_out = 0;  ///< by the sink itself, as far as counted
    bool settled = false;        ///< it failed in this call, and what it was given is counted by its own word
    sink_stats totals{};
  };

  void finish(const member& m) {
    if (finished_.size() == sink_limit) return;
    auto at = finished_.end();
    while (at != finished_.begin() && std::prev(at)->order > m.order) --at;
    finished_.insert(at, m);
  }

  void write_one(member& m, const event* events, std::size_t n) noexcept {
    m.totals.delivered += n;
    m.settled = false;
    if (guarded(m, [&] { m.target->write(event_view{events, n}); })) {
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
    const call_mark mark(*this, m.target->name());  // a literal, which outlives the member
    try {
      action();
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
  std::vector<member> members_;
  std::vector<member> finished_;  ///< without their targets
  std::uint64_t added_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
