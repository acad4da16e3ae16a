// SPDX-License-Identifier: Apache-2.0
#include "trace/join.hpp"

#include <algorithm>
#include <cutrace/analysis/names.hpp>
#include <cutrace/sinks/ascii/page.hpp>
#include <map>
#include <set>

#include "trace/merge_clocks.hpp"
#include "trace/merge_events.hpp"
#include "trace/ordered_traces.hpp"

namespace cutrace_reading {

namespace {

using cutrace::event;
using cutrace::event_kind;

constexpr std::size_t calls_file = 0, probes_file = 1;

std::uint32_t id_of(std::uint64_t number) { return static_cast<std::uint32_t>(number); }

/// Number of the call in which an event was made that is no call itself; null: events of this kind have none.
std::uint64_t* parent_of(event& e) {
  switch (e.kind) {
    case event_kind::ioctl:
      return &e.ioctl_.enclosing;
    case event_kind::system:
      return &e.system.enclosing;
    default:
      return nullptr;
  }
}

/// A stage as its calls have it, with texts of its own.
struct kept_stage {
  std::string name;
  std::vector<std::string> texts;
  std::vector<cutrace::request_ref> requests;
  std::uint32_t request_total = 0;

  explicit kept_stage(const event& of) : name(of.stage_name.data, of.stage_name.size), request_total(of.request_total) {
    texts.reserve(of.request_count);
    for (std::uint32_t i = 0; i < of.request_count; ++i) {
      cutrace::request_ref r = of.requests[i];
      texts.emplace_back(r.name.data, r.name.size);
      if (r.name.size != 0) r.name.data = texts.back().c_str();
      requests.push_back(r);
    }
  }
  kept_stage(const kept_stage&) = delete;
  kept_stage& operator=(const kept_stage&) = delete;
};

/// What both passes over the files know.
struct knowledge {
  join_table table;
  cutrace::detail::seeded_set<std::uint32_t> parents;                  ///< probed calls in which something was made
  cutrace::detail::seeded_map<std::uint64_t, std::uint64_t> stage_of;  ///< CUPTI's calls among those
  std::map<std::uint64_t, kept_stage> stages;                          ///< by instance
  std::set<std::uint32_t> threads;                                     ///< that CUPTI's trace describes
};

class probes_pass : public cutrace::sink {
 public:
  explicit probes_pass(knowledge& k) : k_(k) {}
  void write(cutrace::event_view events) override {
    for (event e : events) {
      if (e.kind == event_kind::api) {
        k_.table.add_probed(id_of(e.correlation_id), id_of(e.api.enclosing), id_of(e.api.joined));
        if (e.api.enclosing != 0) k_.parents.insert(id_of(e.api.enclosing));
      } else if (const std::uint64_t* parent = parent_of(e); parent != nullptr && *parent != 0) {
        k_.parents.insert(id_of(*parent));
      }
    }
  }

 private:
  knowledge& k_;
};

class calls_pass : public cutrace::sink {
 public:
  explicit calls_pass(knowledge& k) : k_(k) {
    for (const std::uint32_t p : k.parents)
      if (k.table.joined_to(p) != 0) wanted_.insert(k.table.joined_to(p));
  }
  void write(cutrace::event_view events) override {
    for (const event& e : events) {
      if (e.kind == event_kind::thread) k_.threads.insert(e.thread_id);
      if (e.kind != event_kind::api || e.api.runtime_api) continue;
      k_.table.add_call(e.correlation_id);
      if (e.stage_id == 0 || wanted_.count(e.correlation_id) == 0) continue;
      k_.stage_of[e.correlation_id] = e.stage_id;
      k_.stages.try_emplace(e.stage_id, e);
    }
  }

 private:
  knowledge& k_;
  cutrace::detail::seeded_set<std::uint64_t> wanted_;
};

std::string with_commas(std::uint64_t n) { return std::string(cutrace::ascii::count(n).view()); }

class joining {
 public:
  joining(const std::string& calls, const std::string& probes, cutrace::sink& to)
      : files_{calls, probes}, to_(to), traces_(files_) {}

  join_outcome run() {
    join_outcome result;
    probes_pass probes(known_);
    read({files_[probes_file]}, probes);
    calls_pass calls(known_);
    read({files_[calls_file]}, calls);
    result.counts = counts_ = known_.table.finish();
    traces_.open();
    open();
    close(traces_.deliver(plan_.places, to_, [this](std::size_t i, event& e) { return place(i, e); }));
    result.line = line_;
    result.events = written_;
    result.of_readers = traces_.release();
    return result;
  }

 private:
  void open() {
    const trace_facts &calls = traces_.facts(calls_file), &probes = traces_.facts(probes_file);
    if (calls.process_id != probes.process_id || calls.boot_id != probes.boot_id)
      throw reading_error("\"" + files_[calls_file] + "\" and \"" + files_[probes_file] +
                          "\" are of different processes");
    line_ = probes.backend == "ioctl" ? "ioctls by ptrace, which does not see the calls that made them: they name none"
                                      : sentence_of(counts_);
    plan_ = plan_clocks({calls, probes}, files_);
    common_ = calls;
    common_.start = traces_.facts(plan_.first).start;
    common_.start.trace_ns = 0;
    // "...; no GPU time by this method" is true of the probes and not of both.
    const std::string how = probes.backend_detail.substr(0, probes.backend_detail.find("; no GPU time"));
    common_.backend_detail += "; " + probes.backend + ": " + how;
    method_note_ = probes.backend + ": " + probes.backend_detail;
    to_.open(common_.info());
  }

  /// False for what the calls' trace has, too.
  bool place(std::size_t i, event& e) {
    if (i == probes_file) {
      if (!wanted(e)) return ++left_out_[static_cast<std::size_t>(e.kind)], false;
      adopt(e);
    } else if (e.kind == event_kind::api && !e.api.runtime_api) {
      look_for_partner(e);
    }
    ++written_;
    return true;
  }

  void look_for_partner(event& e) {
    if (e.api.enclosing == 0) e.api.enclosing = known_.table.enclosing(e.correlation_id);
    if (counts_.only_calls != 0 && !known_.table.take_partner(e.correlation_id))
      ++without_probe_[std::string(e.name.data, e.name.size)];
  }

  /// "only CUPTI saw: cuLibraryGetKernel 8". The driver makes these inside itself, past the exported functions
  /// that have the probes.
  std::string names_without_probe() const {
    std::string text;
    for (const auto& [name, count] : without_probe_)
      text += (text.empty() ? "only CUPTI saw: " : ", ") + name + " " + with_commas(count);
    return text;
  }

  bool wanted(const event& e) const {
    if (e.kind == event_kind::process) return false;
    if (e.kind == event_kind::thread) return known_.threads.count(e.thread_id) == 0;
    return e.kind != event_kind::api || !known_.table.is_joined(id_of(e.correlation_id));
  }

  /// An event of the probes' trace gets the numbers of the joined one.
  void adopt(event& e) {
    std::uint64_t* const in = e.kind == event_kind::api ? &e.api.enclosing : parent_of(e);
    if (e.kind == event_kind::api) {
      e.correlation_id = known_.table.number(id_of(e.correlation_id));
      e.api.joined = 0;
    }
    if (in == nullptr || *in == 0) return;
    const std::uint64_t around = known_.table.joined_around(id_of(*in));
    *in = known_.table.number(id_of(*in));
    const auto stage = known_.stage_of.find(around);
    if (stage == known_.stage_of.end()) return;
    const kept_stage& s = known_.stages.at(stage->second);
    e.stage_id = stage->second;
    e.stage_name = {s.name.c_str(), static_cast<std::uint32_t>(s.name.size())};
    e.requests = s.requests.data();
    e.request_count = static_cast<std::uint32_t>(s.requests.size());
    e.request_total = s.request_total;
  }

  /// The sum of both traces; what both have counts once.
  cutrace::stats totals() const {
    cutrace::stats t = traces_.totals(calls_file).totals;
    const cutrace::stats& o = traces_.totals(probes_file).totals;
    add_counts(t, o);
    for (std::size_t i = 0; i < cutrace::event_kind_count; ++i)
      for (std::uint64_t* const sum : {&t.produced, &t.delivered, &t.by_kind[i]}) *sum -= std::min(*sum, left_out_[i]);
    t.launches_seen = std::max(t.launches_seen, o.launches_seen);
    t.clock_error_ns = std::max(t.clock_error_ns, o.clock_error_ns) + plan_.places[calls_file].error_ns +
                       plan_.places[probes_file].error_ns;
    return t;
  }

  void close(std::int64_t stop_ns) {
    const cutrace::stats sum = totals();
    std::vector<std::string> lines{line_};
    std::string missing;
    if (!without_probe_.empty()) lines.push_back(names_without_probe());
    for (const std::size_t i : {calls_file, probes_file}) {
      if (missing.empty()) missing = traces_.totals(i).missing;
      stop_ns = std::max(stop_ns, shifted(traces_.totals(i).stop.trace_ns, plan_.places[i].offset_ns));
      for (const std::string& n : traces_.totals(i).notes)
        if (n != method_note_ && std::find(lines.begin(), lines.end(), n) == lines.end()) lines.push_back(n);
    }
    lines.push_back("times of probes stand on the common clock by CLOCK_MONOTONIC, within " +
                    std::to_string(sum.clock_error_ns) + " ns");
    close_at(to_, common_.start, stop_ns, sum, lines, missing);
  }

  const std::vector<std::string> files_;
  cutrace::sink& to_;
  knowledge known_;
  ordered_traces traces_;
  clock_plan plan_;
  trace_facts common_;
  join_counts counts_;
  std::string line_, method_note_;
  std::map<std::string, std::uint64_t> without_probe_;  ///< calls of CUPTI's trace that no probe saw, by name
  std::uint64_t written_ = 0;
  std::uint64_t left_out_[cutrace::event_kind_count] = {};  ///< of the probes' trace, since the other one has it
};

}  // namespace

std::string sentence_of(const join_counts& n) {
  return with_commas(n.both) + " calls in both, " + with_commas(n.only_probes) + " only by probes, " +
         with_commas(n.only_calls) + " only by CUPTI";
}

join_outcome join(const std::string& calls, const std::string& probes, cutrace::sink& to) {
  return joining(calls, probes, to).run();
}

}  // namespace cutrace_reading
