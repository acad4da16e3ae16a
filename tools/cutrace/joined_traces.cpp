// SPDX-License-Identifier: Apache-2.0
#include "cutrace/joined_traces.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cutrace/base/process_info.hpp>
#include <cutrace/output/path_pattern.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>

#include "cutrace/run_report.hpp"
#include "trace/join.hpp"

namespace cutrace_tool {

namespace {

/// Several sinks as one. One that fails gets no more, and the others go on.
class sink_group : public cutrace::sink {
 public:
  explicit sink_group(const std::string& list) {
    for (std::unique_ptr<cutrace::sink>& s : cutrace::make_sinks(list.c_str(), "--sink")) {
      members_.emplace_back();
      members_.back().to = std::move(s);
      members_.back().report.name = members_.back().to->name();
    }
  }
  void open(const cutrace::trace_info& info) override {
    each([&](member& m) {
      m.to->open(info);
      if (const char* const where = m.to->destination()) m.report.path = where;
    });
  }
  void write(cutrace::event_view events) override {
    written_ += events.size;
    each([&](member& m) { m.to->write(events); });
    for (member& m : members_)
      if (!m.report.failure.empty()) m.report.lost += events.size;
  }
  void close(const cutrace::trace_summary& end) override {
    each([&](member& m) {
      m.to->close(end);
      m.report.lost = m.to->left_out();
    });
  }

  std::uint64_t written() const noexcept { return written_; }
  /// Ends the sinks.
  std::vector<sink_report> reports() {
    std::vector<sink_report> all;
    for (member& m : members_) {
      const std::uint64_t arrived = m.to->arrived();
      if (!m.report.failure.empty() && arrived != UINT64_MAX) m.report.lost = written_ - std::min(arrived, written_);
      m.to.reset();
      struct stat known {};
      m.report.finished = ::stat(m.report.path.c_str(), &known) == 0 && S_ISREG(known.st_mode);
      if (m.report.finished) m.report.bytes = static_cast<std::uint64_t>(known.st_size);
      all.push_back(m.report);
    }
    return all;
  }

 private:
  struct member {
    std::unique_ptr<cutrace::sink> to;
    sink_report report;
  };
  template <class Use>
  void each(Use use) {
    for (member& m : members_) {
      if (!m.report.failure.empty()) continue;
      try {
        use(m);
      } catch (const std::exception& e) {
        m.report.failure = e.what();
      }
    }
  }
  std::vector<member> members_;
  std::uint64_t written_ = 0;
};

/// The file that a process wrote, finished or not. Empty: none.
std::string file_of(const process_report& p) {
  for (const sink_report& s : p.sinks)
    if (s.bytes != 0) return s.finished ? s.path : s.path + ".tmp";
  return {};
}

std::string who(const process_report& p) { return p.program + " (pid " + std::to_string(p.id) + "): "; }

/// Gives this process the id and rank of `p`, because names of output files are made from them.
void take_place_of(const process_report& p) {
  cutrace::detail::remote_process::own().id = p.id;
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "LOCAL_RANK"}) ::unsetenv(name);
  if (p.rank >= 0) ::setenv("RANK", std::to_string(p.rank).c_str(), 1);
}

class joiner {
 public:
  joiner(const std::string& sinks, const std::string& out) : sinks_(sinks), out_(out) {}

  /// `other`: report of the trace that probes gave of the same process; null: there is none.
  void join(const process_report& p, const process_report* other, joined_traces& to) {
    process_report r = p;
    r.sinks.clear();
    const std::string own = file_of(p), probed = other != nullptr ? file_of(*other) : std::string();
    if (other != nullptr && other->state == cutrace::detail::run_state::untraced)
      to.warnings.push_back(who(r) + "without what probes saw: " + other->message);
    for (const process_report* from : {&p, other})
      for (const sink_report& s : from != nullptr ? from->sinks : std::vector<sink_report>())
        if (!s.failure.empty())
          to.warnings.push_back(who(r) + std::to_string(s.lost) +
                                " events could not be kept until the join: " + s.failure);
    if (other != nullptr)
      for (std::size_t i = 0; i < cutrace::loss_cause_count; ++i) r.lost[i] += other->lost[i];
    if (!own.empty() || !probed.empty()) {
      try {
        write(r, own, probed, to);
      } catch (const std::exception& e) {
        to.warnings.push_back(who(r) + "its traces could not be joined: " + e.what() + keep(own) + keep(probed));
      }
    }
    to.processes.push_back(std::move(r));
  }

 private:
  void write(process_report& r, const std::string& own, const std::string& probed, joined_traces& to) const {
    take_place_of(r);
    sink_group group(sinks_);
    std::vector<cutrace_reading::outcome> read;
    if (own.empty() || probed.empty()) {
      read.push_back(cutrace_reading::read({own.empty() ? probed : own}, group));
    } else {
      cutrace_reading::join_outcome o = cutrace_reading::join(own, probed, group);
      to.lines.push_back(who(r) + o.line);
      r.calls = o.counts.both + o.counts.only_probes + o.counts.only_calls;
      read = std::move(o.of_readers);
    }
    for (const cutrace_reading::outcome& o : read)
      if (o.problems.total() != 0 && !r.open())  // else it has a warning of its own
        to.warnings.push_back(who(r) + "what it wrote is not whole: " + sentence_of(o.problems.kinds().front()));
    r.delivered = group.written();
    r.sinks = group.reports();
  }

  /// Moves a trace that was not joined to `out_`, since its folder is removed after the run. @returns words for the
  /// note
  std::string keep(const std::string& file) const {
    if (file.empty()) return {};
    const std::string kept = out_ + "/" + std::filesystem::path(file).filename().string();
    std::error_code failed;
    std::filesystem::rename(file, kept, failed);
    return failed ? std::string() : "; kept: " + kept;
  }

  const std::string &sinks_, &out_;
};

}  // namespace

joined_traces join_traces(const std::string& sinks, const std::string& out, const std::vector<process_report>& calls,
                          const std::vector<process_report>& probes) {
  joined_traces all;
  std::map<std::uint32_t, std::size_t> programs;
  for (const process_report& p : calls) ++programs[p.id];
  joiner j(sinks, out);
  for (const process_report& p : calls) {
    const process_report* other = nullptr;
    for (const process_report& one : probes)
      if (one.id == p.id) other = &one;
    if (other != nullptr && programs[p.id] > 1) {
      if (p.image == 1)
        all.lines.push_back("process " + std::to_string(p.id) + " executed another program after it had used CUDA: " +
                            "CUPTI numbers the calls of each anew, so that its traces are not joined");
      other = nullptr;
    }
    j.join(p, other, all);
  }
  for (const process_report& p : probes) {
    const auto of = programs.find(p.id);
    if (of != programs.end() && of->second == 1) continue;
    j.join(p, nullptr, all);
  }
  return all;
}

std::vector<std::string> finish_files(const std::string& sinks, std::vector<process_report>& processes) {
  const std::vector<std::string_view> words = cutrace::detail::sink_words(sinks);
  const auto name_of = [](std::string_view word) { return word.substr(0, word.find_first_of(":?")); };
  const auto options_of = [](std::string_view word) {
    return std::string(word.substr(std::min(word.find('?'), word.size())));
  };
  std::vector<std::string> lines;
  for (process_report& p : processes) {
    if (p.alive || !p.open()) continue;
    std::string from, missing;
    std::vector<sink_report*> made;
    for (std::size_t i = 0; i < p.sinks.size() && i < words.size(); ++i) {
      sink_report& s = p.sinks[i];
      const std::string options = options_of(words[i]);
      if (s.path.empty() || s.path[0] != '/' || name_of(words[i]) != s.name || !s.failure.empty() ||
          options.find("rotate=") != std::string::npos)
        continue;
      if (s.name == "jsonl" && s.finished && s.bytes != 0) from = s.path;
      if (s.finished) continue;
      missing += (missing.empty() ? "" : ",") + s.name + ":" + cutrace::detail::pattern_of_path(s.path) + options;
      made.push_back(&s);
    }
    if (from.empty() || made.empty()) continue;
    try {
      take_place_of(p);
      sink_group group(missing);
      cutrace_reading::read({from}, group);
      const std::vector<sink_report> now = group.reports();
      for (std::size_t i = 0; i < made.size() && i < now.size(); ++i) *made[i] = now[i];
      lines.push_back(who(p) + "what it left unfinished was made from " + from);
    } catch (const std::exception& e) {
      lines.push_back(who(p) + "no report can be made from " + from + ": " + e.what());
    }
  }
  return lines;
}

}  // namespace cutrace_tool
