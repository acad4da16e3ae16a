// SPDX-License-Identifier: Apache-2.0
#include "trace/merge.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <set>
#include <thread>
#include <utility>

#include "trace/merge_clocks.hpp"
#include "trace/merge_events.hpp"

namespace cutrace_reading {

namespace {

using cutrace::event;
using cutrace::event_kind;

std::string text_of(const char* s) { return s != nullptr ? s : ""; }

/// The reader's side waits in each of these calls until the merging side has taken what it has: no event is copied, and
/// the texts, which the reader owns, live until the merged sink is closed.
class source : public cutrace::sink {
 public:
  struct given_up {};

  source(std::mutex& lock, std::condition_variable& changed) : lock_(lock), changed_(changed) {}
  const char* name() const noexcept override { return "merge"; }

  // The reader's thread.
  void open(const cutrace::trace_info& i) override {
    std::unique_lock<std::mutex> held(lock_);
    facts.process_id = i.process_id;
    facts.process_name = text_of(i.process_name);
    facts.command_line = text_of(i.command_line);
    facts.host_name = text_of(i.host_name);
    facts.boot_id = text_of(i.boot_id);
    facts.backend = text_of(i.backend);
    facts.backend_detail = text_of(i.backend_detail);
    facts.clock = text_of(i.clock);
    facts.rank = i.rank;
    facts.world_size = i.world_size;
    facts.start = i.start;
    opened = true;
    changed_.notify_all();
  }
  void write(cutrace::event_view events) override {
    if (events.size == 0) return;
    std::unique_lock<std::mutex> held(lock_);
    view = events;
    ready = true;
    changed_.notify_all();
    wait(held, [this] { return !ready; });
  }
  void close(const cutrace::trace_summary& s) override {
    std::unique_lock<std::mutex> held(lock_);
    totals.totals = s.totals;
    totals.stop = s.stop;
    for (std::uint32_t n = 0; n < s.note_count; ++n) totals.notes.push_back(text_of(s.notes[n]));
    ended = true;
    changed_.notify_all();
    wait(held, [this] { return released; });
  }

  // Under the lock.
  trace_facts facts;
  trace_totals totals;
  cutrace::event_view view;
  outcome result;
  std::exception_ptr failure;
  bool opened = false, ready = false, ended = false, released = false, abandoned = false;

 private:
  template <class Done>
  void wait(std::unique_lock<std::mutex>& held, Done done) {
    changed_.wait(held, [&] { return done() || abandoned; });
    if (abandoned) throw given_up();
  }
  std::mutex& lock_;
  std::condition_variable& changed_;
};

class merging {
 public:
  merging(const std::vector<std::string>& files, cutrace::sink& to) : files_(files), to_(to) {
    for (std::size_t i = 0; i < files.size(); ++i) sources_.push_back(std::make_unique<source>(lock_, changed_));
  }
  ~merging() {
    {
      const std::lock_guard<std::mutex> held(lock_);
      for (auto& s : sources_) s->abandoned = !s->released;
      changed_.notify_all();
    }
    for (std::thread& t : threads_) t.join();
  }
  merging(const merging&) = delete;
  merging& operator=(const merging&) = delete;

  std::vector<outcome> run() {
    for (std::size_t i = 0; i < files_.size(); ++i) threads_.emplace_back([this, i] { read_one(i); });
    await([](const source& s) { return s.opened; });
    refuse_parts();
    std::vector<trace_facts> facts;
    for (const auto& s : sources_) facts.push_back(s->facts);
    plan_ = plan_clocks(facts, files_);
    open();
    deliver();
    close();
    {
      const std::lock_guard<std::mutex> held(lock_);
      for (auto& s : sources_) s->released = true;
      changed_.notify_all();
    }
    for (std::thread& t : threads_) t.join();
    threads_.clear();
    std::vector<outcome> all;
    for (auto& s : sources_) all.push_back(std::move(s->result));
    return all;
  }

 private:
  void read_one(std::size_t i) {
    source& s = *sources_[i];
    try {
      outcome o = read({files_[i]}, s);
      const std::lock_guard<std::mutex> held(lock_);
      s.result = std::move(o);
    } catch (const source::given_up&) {
    } catch (...) {
      const std::lock_guard<std::mutex> held(lock_);
      s.failure = std::current_exception();
      changed_.notify_all();
    }
  }
  /// Until `done` holds of all. @throws what a reader threw
  void await(const std::function<bool(const source&)>& done) {
    std::unique_lock<std::mutex> held(lock_);
    changed_.wait(held, [&] {
      return std::all_of(sources_.begin(), sources_.end(), [&](const auto& s) { return done(*s); }) ||
             std::any_of(sources_.begin(), sources_.end(), [](const auto& s) { return s->failure != nullptr; });
    });
    for (const auto& s : sources_)
      if (s->failure != nullptr) std::rethrow_exception(s->failure);
  }

  void refuse_parts() const {
    for (std::size_t i = 0; i < sources_.size(); ++i)
      for (std::size_t k = 0; k < i; ++k) {
        const trace_facts &a = sources_[i]->facts, &b = sources_[k]->facts;
        if (a.process_id == b.process_id && a.host_name == b.host_name && a.boot_id == b.boot_id &&
            a.start.monotonic_ns == b.start.monotonic_ns && a.start.realtime_ns == b.start.realtime_ns)
          throw reading_error("\"" + files_[k] + "\" and \"" + files_[i] +
                              "\" are of the same process and the same beginning: a file given twice, or parts of one "
                              "trace, which cutrace convert joins");
      }
  }

  /// "server (rank 3, node-2, pid 17)": what tells it from the others.
  std::string identity(std::size_t i) {
    const trace_facts& f = sources_[i]->facts;
    std::string about;
    const auto add = [&about](const std::string& s) { about += (about.empty() ? "" : ", ") + s; };
    if (f.rank >= 0) add("rank " + std::to_string(f.rank));
    bool hosts = false;
    for (const auto& s : sources_) hosts = hosts || s->facts.host_name != f.host_name;
    if (hosts) add(f.host_name.empty() ? "unknown host" : f.host_name);
    if (numbers_.task(i, f.process_id) != f.process_id) add("pid " + std::to_string(f.process_id));
    const std::string name = f.process_name.empty() ? "process" : f.process_name;
    return about.empty() ? name : name + " (" + about + ")";
  }

  void open() {
    const trace_facts& first = sources_[plan_.first]->facts;
    trace_facts& all = common_;  // sinks may keep what it points to
    all = first;
    // The first one keeps its number; of the others the file that was named before.
    all.process_id = numbers_.task(plan_.first, first.process_id);
    for (std::size_t i = 0; i < sources_.size(); ++i) numbers_.task(i, sources_[i]->facts.process_id);
    if (sources_.size() > 1) {
      all.process_name = identity(plan_.first) + " and " + std::to_string(sources_.size() - 1) + " more";
      all.rank = -1;
      std::set<std::string> hosts, backends;
      for (const auto& s : sources_) hosts.insert(s->facts.host_name), backends.insert(s->facts.backend);
      if (hosts.size() > 1) all.host_name = first.host_name + " and " + std::to_string(hosts.size() - 1) + " more";
      if (backends.size() > 1) all.backend_detail = "of the first; others have other backends";
    }
    all.start.trace_ns = 0;
    start_ = all.start;
    to_.open(all.info());
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      names_.push_back(identity(i));
      event e;
      e.kind = event_kind::process;
      e.process_id = numbers_.task(i, sources_[i]->facts.process_id);
      e.name = kept(names_[i]);
      out_.push_back(e);
    }
    flush();
  }
  cutrace::text kept(const std::string& s) {
    texts_.push_back(s);
    cutrace::text t;
    t.data = texts_.back().c_str();
    t.size = static_cast<std::uint32_t>(texts_.back().size());
    return t;
  }

  static bool is_description(const event& e) noexcept {
    return e.kind >= event_kind::process && e.kind <= event_kind::stream;
  }

  void deliver() {
    std::vector<std::size_t> at(sources_.size(), 0);
    std::vector<std::int64_t> newest(sources_.size(), INT64_MIN);
    using head = std::pair<std::int64_t, std::size_t>;  // end of the next event, its source
    std::priority_queue<head, std::vector<head>, std::greater<head>> heads;
    // The next event of a source: late ones and descriptions go as soon as they are reached.
    const auto push = [&](std::size_t i) {
      {
        std::unique_lock<std::mutex> held(lock_);
        source& s = *sources_[i];
        changed_.wait(held, [&] { return s.ready || s.ended || s.failure != nullptr; });
        if (s.failure != nullptr) std::rethrow_exception(s.failure);
        if (!s.ready) return;
      }
      const event& e = sources_[i]->view.data[at[i]];
      if (!e.late && !is_description(e)) {
        std::int64_t end_ns = 0;
        if (__builtin_add_overflow(e.end_ns, plan_.places[i].offset_ns, &end_ns)) end_ns = newest[i];
        newest[i] = std::max(newest[i], end_ns);
      }
      heads.push({newest[i], i});
    };
    for (std::size_t i = 0; i < sources_.size(); ++i) push(i);
    while (!heads.empty()) {
      const std::size_t i = heads.top().second;
      heads.pop();
      source& s = *sources_[i];
      add(i, s.view.data[at[i]]);
      if (++at[i] == s.view.size) {
        flush();  // what it has of this view is valid only until then
        at[i] = 0;
        const std::lock_guard<std::mutex> held(lock_);
        s.ready = false;
        changed_.notify_all();
      }
      push(i);
    }
    flush();
  }
  void add(std::size_t i, const event& given) {
    out_.push_back(given);
    event& e = out_.back();
    numbers_.change(i, plan_.places[i].offset_ns, e);
    newest_ns_ = std::max(newest_ns_, e.end_ns);
    if (e.kind == event_kind::process) {
      if (given.process_id == sources_[i]->facts.process_id) return void(out_.pop_back());  // described already
      if (e.process_id != given.process_id)
        e.name =
            kept(std::string(given.name.data, given.name.size) + " (pid " + std::to_string(given.process_id) + ")");
    }
    if (out_.size() >= 2048) flush();
  }
  void flush() {
    if (out_.empty()) return;
    cutrace::event_view v;
    v.data = out_.data();
    v.size = out_.size();
    to_.write(v);
    out_.clear();
  }

  std::string clock_note(std::size_t i) const {
    const clock_place& p = plan_.places[i];
    const source& s = *sources_[i];
    const auto ns = [](std::uint64_t n) { return std::to_string(n) + " ns"; };
    std::string note = names_[i] + ", from " + files_[i] + ": begins at " +
                       std::to_string(shifted(s.facts.start.trace_ns, p.offset_ns)) + " ns; ";
    const std::uint64_t bound = p.error_ns + s.totals.totals.clock_error_ns;
    if (i == plan_.first) return note + "the common clock is its own";
    if (p.by_monotonic) return note + "by CLOCK_MONOTONIC of the same boot, within " + ns(bound);
    note += "by CLOCK_REALTIME, within " + ns(bound) + " and what the hosts' clocks are apart, which no file tells";
    // NTP slews or steps REALTIME meanwhile: it shows against MONOTONIC.
    const source& r = *sources_[p.representative];
    const cutrace::clock_anchor &from = r.facts.start, &to = r.totals.stop;
    if (from.monotonic_ns != 0 && to.monotonic_ns != 0) {
      const auto moved =
          static_cast<std::int64_t>((to.realtime_ns - to.monotonic_ns) - (from.realtime_ns - from.monotonic_ns));
      note += "; its REALTIME moved by " + std::to_string(moved) + " ns against MONOTONIC meanwhile";
    }
    return note;
  }

  void close() {
    trace_totals all;
    cutrace::stats& t = all.totals;
    all.notes.push_back("merged from " + std::to_string(sources_.size()) +
                        " traces; numbers of processes, threads, "
                        "stages, calls, GPUs, contexts and streams that occur in several were made different");
    std::int64_t stop_ns = newest_ns_;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const source& s = *sources_[i];
      const cutrace::stats& o = s.totals.totals;
      all.notes.push_back(clock_note(i));
      t.produced += o.produced;
      t.delivered += o.delivered;
      t.pending += o.pending;
      const auto add = [](auto& sums, const auto& more) {
        for (std::size_t k = 0; k < sizeof(sums) / sizeof(sums[0]); ++k) sums[k] += more[k];
      };
      add(t.lost, o.lost);
      add(t.quality_of, o.quality_of);
      add(t.unattributed_by, o.unattributed_by);
      add(t.by_kind, o.by_kind);
      t.memory_bytes += o.memory_bytes;
      t.memory_limit_bytes += o.memory_limit_bytes;
      t.clock_error_ns = std::max(t.clock_error_ns, o.clock_error_ns + plan_.places[i].error_ns);
      t.launches_seen += o.launches_seen;
      t.gpu_records_seen += o.gpu_records_seen;
      t.collector_cpu_ns += o.collector_cpu_ns;
      stop_ns = std::max(stop_ns, shifted(s.totals.stop.trace_ns, plan_.places[i].offset_ns));
      for (const std::string& n : s.totals.notes) all.notes.push_back(names_[i] + ": " + n);
    }
    cutrace::trace_summary summary{};
    summary.stop = start_;
    summary.stop.trace_ns = stop_ns;
    const auto passed = static_cast<std::uint64_t>(stop_ns);
    summary.stop.realtime_ns += passed;
    if (start_.monotonic_ns != 0) summary.stop.monotonic_ns += passed;
    if (start_.boottime_ns != 0) summary.stop.boottime_ns += passed;
    summary.totals = t;
    std::vector<const char*> notes;
    for (const std::string& n : all.notes) notes.push_back(n.c_str());
    summary.notes = notes.data();
    summary.note_count = static_cast<std::uint32_t>(notes.size());
    to_.close(summary);
  }

  const std::vector<std::string>& files_;
  cutrace::sink& to_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<source>> sources_;
  std::vector<std::thread> threads_;
  clock_plan plan_;
  common_numbers numbers_;
  std::vector<std::string> names_;
  std::deque<std::string> texts_;
  std::vector<event> out_;
  trace_facts common_;
  cutrace::clock_anchor start_{};
  std::int64_t newest_ns_ = 0;
};

}  // namespace

std::vector<outcome> merge(const std::vector<std::string>& files, cutrace::sink& to) {
  if (files.size() > merge_limit)
    throw reading_error("more than " + std::to_string(merge_limit) + " files; merge them in groups, then the results");
  merging all(files, to);
  return all.run();
}

}  // namespace cutrace_reading
