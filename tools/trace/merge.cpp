// SPDX-License-Identifier: Apache-2.0
#include "trace/merge.hpp"

#include <algorithm>
#include <cutrace/analysis/names.hpp>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "trace/merge_clocks.hpp"
#include "trace/merge_events.hpp"
#include "trace/ordered_traces.hpp"

namespace cutrace_reading {

namespace {

using cutrace::event;
using cutrace::event_kind;

class merging {
 public:
  merging(const std::vector<std::string>& files, cutrace::sink& to) : files_(files), to_(to), sources_(files) {}

  std::vector<outcome> run() {
    sources_.open();
    seen_.resize(sources_.size());
    refuse_parts();
    std::vector<trace_facts> facts;
    for (std::size_t i = 0; i < sources_.size(); ++i) facts.push_back(sources_.facts(i));
    plan_ = plan_clocks(facts, files_);
    open();
    close(sources_.deliver(plan_.places, to_, [this](std::size_t i, event& e) { return place(i, e); }));
    return sources_.release();
  }

 private:
  /// Whether two files of a process are of one trace: they have its beginning (in a merged trace at another time of the
  /// trace), or its time 0, since sessions may join a trace after its beginning.
  static bool is_one_trace(const cutrace::clock_anchor& a, const cutrace::clock_anchor& b) {
    if (a.monotonic_ns == b.monotonic_ns && a.realtime_ns == b.realtime_ns) return true;
    return a.monotonic_ns != 0 && b.monotonic_ns != 0 &&
           a.monotonic_ns - static_cast<std::uint64_t>(a.trace_ns) ==
               b.monotonic_ns - static_cast<std::uint64_t>(b.trace_ns);
  }

  void refuse_parts() const {
    for (std::size_t i = 0; i < sources_.size(); ++i)
      for (std::size_t k = 0; k < i; ++k) {
        const trace_facts &a = sources_.facts(i), &b = sources_.facts(k);
        if (a.process_id == b.process_id && without_more(a.host_name) == without_more(b.host_name) &&
            a.boot_id == b.boot_id && is_one_trace(a.start, b.start))
          throw reading_error(
              "\"" + files_[k] + "\" and \"" + files_[i] +
              "\" are of the same process and the same trace: a file given twice (a merge of it counts), files of "
              "two of its sessions, or parts, which cutrace convert joins");
      }
  }

  /// "server (rank 3, node-2, pid 17)": what distinguishes it from the others. `process`: the name, or a part of it.
  std::string identity(std::size_t i, std::string_view process) {
    const trace_facts& f = sources_.facts(i);
    std::string about;
    const auto add = [&about](const std::string& s) { about += (about.empty() ? "" : ", ") + s; };
    if (f.rank >= 0) add("rank " + std::to_string(f.rank));
    bool hosts = false;
    for (std::size_t k = 0; k < sources_.size(); ++k) hosts = hosts || sources_.facts(k).host_name != f.host_name;
    if (hosts) add(f.host_name.empty() ? "unknown host" : std::string(without_more(f.host_name)));
    if (ids_.task(i, f.process_id) != f.process_id) add("pid " + std::to_string(f.process_id));
    const std::string name(process.empty() ? "process" : process);
    return about.empty() ? name : name + " (" + about + ")";
  }

  void open() {
    const trace_facts& first = sources_.facts(plan_.first);
    trace_facts& all = common_;  // sinks may keep what it points to
    all = first;
    // The process that began first keeps its id; of others that share one, the one whose file was named first.
    all.process_id = ids_.task(plan_.first, first.process_id);
    for (std::size_t i = 0; i < sources_.size(); ++i) ids_.task(i, sources_.facts(i).process_id);
    if (sources_.size() > 1) {
      all.process_name =
          identity(plan_.first, first.process_name) + " and " + std::to_string(sources_.size() - 1) + " more";
      all.rank = -1;
      std::set<std::string> hosts, backends;
      for (std::size_t i = 0; i < sources_.size(); ++i)
        hosts.insert(sources_.facts(i).host_name), backends.insert(sources_.facts(i).backend);
      if (hosts.size() > 1) all.host_name = first.host_name + " and " + std::to_string(hosts.size() - 1) + " more";
      if (backends.size() > 1) all.backend_detail = "of the first; others have other backends";
    }
    all.start.trace_ns = 0;
    start_ = all.start;
    to_.open(all.info());
    std::vector<event> processes(sources_.size());
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const std::string& name = sources_.facts(i).process_name;
      names_.push_back(identity(i, name));
      event& e = processes[i];
      e.kind = event_kind::process;
      e.process_id = ids_.task(i, sources_.facts(i).process_id);
      e.name = kept(identity(i, without_more(name)));  // of a merged trace: of its first process alone
    }
    to_.write({processes.data(), processes.size()});
  }
  cutrace::text kept(const std::string& s) {
    texts_.push_back(s);
    cutrace::text t;
    t.data = texts_.back().c_str();
    t.size = static_cast<std::uint32_t>(texts_.back().size());
    return t;
  }

  /// False for what is described already.
  bool place(std::size_t i, event& e) {
    const std::uint32_t given = e.process_id;
    ids_.renumber(i, e);
    seen& s = seen_[i];
    if (e.kind == event_kind::window) {
      s.windows = in_windows_ = true;
      // Where a session joined the trace, the window may have begun before its file.
      e.start_ns = std::min(std::max(e.start_ns, begin_ns(i)), e.end_ns);
    }
    if (!e.is_description()) s.last_ns = std::max(s.last_ns, e.end_ns);
    if (e.kind == event_kind::counter) name_gpu(i, e);
    if (e.kind != event_kind::process) return true;
    if (given == sources_.facts(i).process_id) return false;
    if (e.process_id != given)
      e.name = kept(std::string(e.name.data, e.name.size) + " (pid " + std::to_string(given) + ")");
    return true;
  }

  /// Of "GPU 0 SM clock MHz" files have the name alone, which must name the GPU by its new number.
  void name_gpu(std::size_t i, event& e) {
    using cutrace::analysis::gpu_counter;
    const gpu_counter counter = gpu_counter::named(e.name);
    if (counter.of.empty()) return;
    const std::uint32_t number = ids_.device_of(i, counter.device);
    if (number == counter.device) return;
    const auto known = gpu_names_.try_emplace({number, std::string(counter.of)});
    if (known.second)
      known.first->second = kept(std::string(gpu_counter::begin) + std::to_string(number) + known.first->first.second);
    e.name = known.first->second;
  }

  /// The beginning of the file, on the common clock.
  std::int64_t begin_ns(std::size_t i) const {
    return shifted(sources_.facts(i).start.trace_ns, plan_.places[i].offset_ns);
  }

  std::string clock_note(std::size_t i) const {
    const clock_place& p = plan_.places[i];
    const auto ns = [](std::uint64_t n) { return std::to_string(n) + " ns"; };
    std::string note = names_[i] + ", from " + files_[i] + ": begins at " + std::to_string(begin_ns(i)) + " ns; ";
    const std::uint64_t bound = p.error_ns + sources_.totals(i).totals.clock_error_ns;
    if (i == plan_.first) return note + "the common clock is its own";
    if (p.by_monotonic) return note + "by CLOCK_MONOTONIC of the same boot, within " + ns(bound);
    note += "by CLOCK_REALTIME, within " + ns(bound) + " and what the hosts' clocks are apart, which no file says";
    // Whoever sets the clock (NTP by a step, or a person) moves REALTIME against MONOTONIC. A slew moves both alike.
    const cutrace::clock_anchor &from = sources_.facts(p.representative).start,
                                &to = sources_.totals(p.representative).stop;
    if (from.monotonic_ns != 0 && to.monotonic_ns != 0) {
      const auto moved =
          static_cast<std::int64_t>((to.realtime_ns - to.monotonic_ns) - (from.realtime_ns - from.monotonic_ns));
      // Exactly 0: a file that has lost its end does not say where they were then, so that they follow from its begin.
      if (moved != 0) note += "; its REALTIME moved by " + std::to_string(moved) + " ns against MONOTONIC meanwhile";
    }
    return note;
  }

  /// Of a trace that was recorded all the time, beside others that were not: a window of all of its time, or readers
  /// would take it for one that was not recorded outside of the windows of the others.
  void add_window(std::size_t i, std::int64_t stop_ns) {
    event e{};
    e.kind = event_kind::window;
    e.process_id = ids_.task(i, sources_.facts(i).process_id);
    e.name = {"recorded", 8};
    e.start_ns = begin_ns(i);
    e.end_ns = std::max({e.start_ns, stop_ns, seen_[i].last_ns});
    e.late = true;  // events that end later were passed on before
    to_.write({&e, 1});
  }

  void close(std::int64_t stop_ns) {
    trace_totals all;
    cutrace::stats& t = all.totals;
    all.notes.push_back("merged from " + std::to_string(sources_.size()) +
                        " traces; numbers of processes, threads, "
                        "stages, calls, GPUs, contexts and streams that occur in several were made different");
    if (in_windows_)
      all.notes.push_back(
          "recorded in windows, each process in its own: reports take the time within any of them for recorded, so "
          "that a GPU may have been at work where they show it idle");
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const trace_totals& s = sources_.totals(i);
      const cutrace::stats& o = s.totals;
      all.notes.push_back(clock_note(i));
      add_counts(t, o);
      if (!s.missing.empty()) all.missing += (all.missing.empty() ? "" : "; ") + names_[i] + ": " + s.missing;
      t.clock_error_ns = std::max(t.clock_error_ns, o.clock_error_ns + plan_.places[i].error_ns);
      t.launches_seen += o.launches_seen;
      const std::int64_t ended_ns = shifted(s.stop.trace_ns, plan_.places[i].offset_ns);
      stop_ns = std::max(stop_ns, ended_ns);
      if (in_windows_ && !seen_[i].windows) {
        add_window(i, ended_ns);
        ++t.produced;
        ++t.delivered;
        ++t.by_kind[static_cast<std::size_t>(event_kind::window)];
      }
      for (const std::string& n : s.notes) all.notes.push_back(names_[i] + ": " + n);
    }
    close_at(to_, start_, stop_ns, t, all.notes, all.missing);
  }

  const std::vector<std::string>& files_;
  cutrace::sink& to_;
  ordered_traces sources_;
  clock_plan plan_;
  merged_ids ids_;
  std::vector<std::string> names_;
  std::deque<std::string> texts_;
  trace_facts common_;
  cutrace::clock_anchor start_{};
  struct seen {
    bool windows = false;  ///< the trace was paused or sampled, or lacks parts
    std::int64_t last_ns = std::numeric_limits<std::int64_t>::min();
  };
  std::vector<seen> seen_;   ///< of each trace
  bool in_windows_ = false;  ///< one of them

  std::map<std::pair<std::uint32_t, std::string>, cutrace::text> gpu_names_;  ///< by number and what follows it
};

}  // namespace

std::vector<outcome> merge(const std::vector<std::string>& files, cutrace::sink& to) {
  if (files.size() > merge_limit)
    throw reading_error("more than " + std::to_string(merge_limit) + " files; merge them in groups, then the results");
  merging all(files, to);
  return all.run();
}

}  // namespace cutrace_reading
