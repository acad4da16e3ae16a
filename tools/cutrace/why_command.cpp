// SPDX-License-Identifier: Apache-2.0
#include "cutrace/why_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cutrace/analysis_sink.hpp"
#include "cutrace/exit_status.hpp"
#include "cutrace/help_format.hpp"
#include "cutrace/report_outputs.hpp"
#include "cutrace/say.hpp"
#include "cutrace/terminal.hpp"
#include "cutrace/trace_input.hpp"
#include "cutrace/unfinished_files.hpp"
#include "cutrace/view_options.hpp"
#include "report/pages/why_html.hpp"
#include "report/pages/why_json.hpp"
#include "report/pages/why_text.hpp"
#include "report/why.hpp"

namespace cutrace_tool {

namespace {

namespace analysis = cutrace::analysis;

struct why_arguments {
  std::vector<std::string> files;
  std::vector<std::string> requests;
  unsigned slowest = 0;
  double percentile = -1;
  report_outputs outputs;
  view_options view;
};

/// Analyses the events that it is given; the reports are there once it is closed.
class why_sink : public analysis_sink {
 public:
  explicit why_sink(const why_arguments& arguments) : arguments_(arguments) {}
  const char* name() const noexcept override { return "why"; }

  void open(const cutrace::trace_info& info) override {
    title_ = std::string(info.process_name != nullptr ? info.process_name : "") + " (pid " +
             std::to_string(info.process_id) + ")";
    analysis_sink::open(info);
  }
  void write(cutrace::event_view events) override {
    analysis_sink::write(events);
    for (const cutrace::event& e : events) clocks_.add(e);
  }
  void close(const cutrace::trace_summary& end) override {
    const analysis::trace_results results = finish(end);
    analysis::why_finder finder(all().log(), results, all().ioctls().switched(), clocks_);
    for (const std::uint32_t request : chosen(finder)) reports_.push_back(finder.find(request));
    if (end.missing != nullptr) missing_ = end.missing;
    lost_ = std::max(end.totals.lost_total(), all().log().lost_total());
    forget();
  }

  const std::vector<analysis::why_report>& reports() const noexcept { return reports_; }
  const std::vector<std::string>& unknown() const noexcept { return unknown_; }
  std::size_t requests() const noexcept { return requests_; }
  const std::string& title() const noexcept { return title_; }
  const std::string& missing() const noexcept { return missing_; }
  std::uint64_t lost() const noexcept { return lost_; }

 private:
  std::vector<std::uint32_t> chosen(const analysis::why_finder& finder) {
    const std::vector<std::uint32_t>& by_latency = finder.by_latency();
    requests_ = by_latency.size();
    std::vector<std::uint32_t> list;
    for (const std::string& name : arguments_.requests) {
      const std::size_t before = list.size();  // the number 7 and the text "7" read the same: both are meant
      for (const std::uint32_t r : by_latency)
        if (finder.name_of_request(r) == name) list.push_back(r);
      if (list.size() == before) unknown_.push_back(name);
    }
    for (std::size_t i = 0; i < std::min<std::size_t>(arguments_.slowest, by_latency.size()); ++i)
      list.push_back(by_latency[i]);
    if (arguments_.percentile >= 0 && !by_latency.empty()) {
      // Nearest rank, of the latencies from the shortest on. Without the rounding error by which 99.9 % of 1000 is
      // more than 999.
      const double share = arguments_.percentile / 100 * (1 - 1e-12);
      const double rank = std::ceil(share * static_cast<double>(by_latency.size()));
      const std::size_t n =
          std::min<std::size_t>(std::max<std::size_t>(static_cast<std::size_t>(rank), 1), by_latency.size());
      list.push_back(by_latency[by_latency.size() - n]);
    }
    return list;
  }

  const why_arguments& arguments_;
  std::vector<analysis::why_report> reports_;
  std::vector<std::string> unknown_;
  std::string title_, missing_;
  std::size_t requests_ = 0;
  std::uint64_t lost_ = 0;
  analysis::clock_log clocks_;  ///< clock rates of the GPU
};

int run_why(why_arguments& w) {
  if (w.requests.empty() && w.slowest == 0 && w.percentile < 0) w.slowest = 1;
  prepare_to_read(w.files);
  w.outputs.check(w.files);
  why_sink why(w);
  const cutrace_reading::outcome o = read_trace(w.files, why, w.view.quiet);
  if (why.requests() == 0)
    throw usage_error(
        "the trace names no request: pass the id of a request to its stages (CUTRACE_STAGE(\"decode\", id), "
        "CUTRACE_STAGE_BATCH)");
  for (const std::string& name : why.unknown())
    say("cutrace: the trace has no request " + name + " among its " + std::to_string(why.requests()));
  if (why.reports().empty()) return exit_command_failure;
  if (!why.missing().empty())
    say("cutrace: the trace is INCOMPLETE (" + why.missing() +
        "): why a request was slow may be among what is missing");
  if (why.lost() != 0)
    std::fprintf(stderr, "cutrace: %llu records were lost: why a request was slow may be among what is missing\n",
                 static_cast<unsigned long long>(why.lost()));
  if (!w.outputs.json.empty()) write_whole_file(w.outputs.json, cutrace::why_json(why.reports()));
  if (!w.outputs.html.empty()) write_whole_file(w.outputs.html, cutrace::why_html(why.reports(), why.title()));
  if (!w.outputs.any()) {
    const cutrace::report_options text = w.view.of_text();
    bool first = true;
    for (const analysis::why_report& r : why.reports()) {
      std::fputs(first ? "" : "\n", stdout);
      first = false;
      std::fputs(cutrace::why_text(r, text.width, text.color, text.utf8).c_str(), stdout);
    }
  }
  return why.unknown().empty() ? status_of(o) : exit_command_failure;
}

}  // namespace

void add_why(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("why", "Why a request of a trace took as long as it did");
  const auto w = std::make_shared<why_arguments>();
  command->formatter(std::make_shared<help_format>("cutrace why [options] FILE..."));
  command->add_option("files", w->files, "Traces, as for cutrace convert")->required()->type_name("FILE...");
  command
      ->add_option("--request", w->requests, "The request with this id, a number or a text. May be given several times")
      ->type_name("ID")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--slowest", w->slowest,
                   "The N requests with the longest latency; 1 where nothing else is asked for")
      ->check(CLI::Range(1u, 1000u))
      ->type_name("N");
  command->add_option("--percentile", w->percentile, "The request at this percentile of the latencies")
      ->check(number_within(0, 100))
      ->type_name("P");
  command->add_flag("--json{-}", w->outputs.json,
                    "As one JSON document on standard output, or in FILE with --json=FILE");
  command->add_option("--html", w->outputs.html, "As a page that needs no network")
      ->check(not_empty())
      ->type_name("FILE");
  w->view.add_options(*command, nullptr);
  command->footer(
      "Where the request's time went, beside the median of other requests of the trace, and what it spent more on.\n"
      "Exit code: that of cutrace convert; 125 if the trace has no such request.\n"
      "Examples:\n"
      "  cutrace why t.jsonl                                the slowest request\n"
      "  cutrace why t.jsonl --request chat-0007\n"
      "  cutrace why t.jsonl --percentile 99 --json | jq '.requests[0].causes[0]'\n"
      "  cutrace why t.pftrace --slowest 5 --html why.html");
  command->callback([w, &exit_status] {
    remove_unfinished_files_when_interrupted();
    exit_status = run_why(*w);
  });
}

}  // namespace cutrace_tool
