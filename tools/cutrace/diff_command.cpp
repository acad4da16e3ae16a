// SPDX-License-Identifier: Apache-2.0
#include "cutrace/diff_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cutrace/analysis_sink.hpp"
#include "cutrace/exit_status.hpp"
#include "cutrace/help_format.hpp"
#include "cutrace/output_sink.hpp"     // refuse_input
#include "cutrace/report_outputs.hpp"  // write_whole_file
#include "cutrace/say.hpp"
#include "cutrace/trace_filter.hpp"
#include "cutrace/trace_input.hpp"
#include "cutrace/unfinished_files.hpp"
#include "cutrace/view_options.hpp"
#include "report/pages/difference_json.hpp"
#include "report/pages/difference_text.hpp"
#include "report/trace_difference.hpp"
#include "trace/given_files.hpp"

namespace cutrace_tool {

namespace {

namespace analysis = cutrace::analysis;

struct diff_arguments {
  std::vector<std::string> pair, before, after;
  choice_words choice;
  std::string fail_over, json;
  bool allow_incomplete = false;
  view_options view;
};

/// Durations kept of each row where each side is one trace: enough to test whether the durations differ; more would
/// cost memory without changing the result.
constexpr std::size_t kept_durations = 4096;

class profile_sink : public analysis_sink {
 public:
  explicit profile_sink(std::size_t keep) : keep_(keep) {}
  const char* name() const noexcept override { return "diff"; }
  void close(const cutrace::trace_summary& end) override {
    const analysis::trace_results r = finish(end);
    profile_ = analysis::profile_of(all(), r, keep_);
    if (end.missing != nullptr) profile_.missing = end.missing;
    profile_.lost = std::max(end.totals.lost_total(), all().log().lost_total());
    forget();
  }
  analysis::trace_profile take() { return std::move(profile_); }

 private:
  std::size_t keep_;
  analysis::trace_profile profile_;
};

std::string plain_number(double n) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", n);
  return text;
}

/// "5%" or "0.05" as a share. @throws usage_error
double parse_share(const std::string& text) {
  char* end = nullptr;
  double n = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && std::string(end) == "%") {
    n /= 100;
    ++end;
  }
  if (end == text.c_str() || *end != '\0' || !std::isfinite(n) || n < 0)
    throw usage_error("--fail-over " + text + " is no share; write it as 5% or 0.05");
  if (*(end - 1) != '%' && n >= 1)
    throw usage_error("--fail-over " + text + " is " + plain_number(n * 100) + " %; write " + text + "% or " +
                      plain_number(n / 100));
  return n;
}

/// Reads the traces one after the other, and keeps the worst exit status.
class runs {
 public:
  runs(diff_arguments& w, std::size_t keep) : wishes_(w), keep_(keep) {}
  /// @throws error for an incomplete trace, unless --allow-incomplete was given, and for one without what was chosen:
  /// to say that nothing became slower would be no answer; usage_error for a file that is given twice
  std::vector<analysis::trace_profile> read(const std::vector<std::string>& files) {
    std::vector<analysis::trace_profile> list;
    cutrace_reading::given_files given;
    for (const std::string& file : files) {
      struct stat known {};
      if (!given.add(file, known))
        throw usage_error(file +
                          " is given twice: one run is no two, and a test against chance would take it for more");
      profile_sink profile(keep_);
      const chosen_outcome o = read_chosen({file}, profile, wishes_.choice, wishes_.view.quiet, chosen_for::comparison);
      if (o.nothing_chosen)
        throw usage_error(file + ": none of the " + std::to_string(o.events) + " events matches; the trace has " +
                          o.there_is);
      status_ = std::max(status_, status_of(o));
      list.push_back(profile.take());
      if (!list.back().missing.empty() && !wishes_.allow_incomplete)
        throw cutrace::error((file + " is incomplete (" + list.back().missing +
                              "): a comparison would take what is missing for a change; --allow-incomplete compares "
                              "what is there")
                                 .c_str());
      if (list.back().lost != 0)
        say("cutrace: " + file + " lost " + std::to_string(list.back().lost) +
            " records: its times are too small by an unknown amount");
    }
    return list;
  }
  int status() const noexcept { return status_; }

 private:
  diff_arguments& wishes_;
  std::size_t keep_;
  int status_ = 0;
};

int run_diff(diff_arguments& w) {
  refuse_gz("--json", w.json);
  if (!w.pair.empty() && (!w.before.empty() || !w.after.empty()))
    throw usage_error("name two files, or several with --before and --after, not both");
  if (!w.pair.empty() && w.pair.size() != 2)
    throw usage_error(
        "cutrace diff compares two files, BEFORE and AFTER; several runs of each go behind --before and "
        "--after");
  if (w.pair.size() == 2) {
    w.before = {w.pair[0]};
    w.after = {w.pair[1]};
  }
  if (w.before.empty() || w.after.empty())
    throw usage_error("nothing to compare: cutrace diff BEFORE AFTER, or --before FILE... --after FILE...");
  const double fail_over = w.fail_over.empty() ? -1 : parse_share(w.fail_over);
  std::vector<std::string> files = w.before;
  files.insert(files.end(), w.after.begin(), w.after.end());
  refuse_input("--json=" + w.json, w.json, files);
  prepare_to_read(files);
  refuse_place("--json=" + w.json, w.json);
  const bool single = w.before.size() == 1 && w.after.size() == 1;
  runs reader(w, single ? kept_durations : 0);
  const std::vector<analysis::trace_profile> before = reader.read(w.before), after = reader.read(w.after);
  const analysis::trace_difference d = analysis::find_difference(before, after);
  if (!w.json.empty()) {
    write_whole_file(w.json, cutrace::difference_json(d, w.before, w.after, fail_over));
  } else {
    cutrace::ascii::difference_page page(d, before.size(), after.size(), fail_over, w.view.of_text());
    std::fputs(page.text().c_str(), stdout);
  }
  if (reader.status() != 0 || fail_over < 0) return reader.status();
  bool slower = false;
  cutrace::ascii::difference_page::for_each_slower(d, fail_over,
                                                   [&](const char*, const analysis::difference&) { slower = true; });
  return slower ? exit_slower : 0;
}

}  // namespace

void add_diff(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("diff", "What became slower or faster between traces");
  const auto w = std::make_shared<diff_arguments>();
  command->formatter(
      std::make_shared<help_format>("cutrace diff [options] BEFORE AFTER | --before FILE... --after FILE..."));
  command->add_option("files", w->pair, "Two trace files, before and after, as for cutrace convert")
      ->type_name("FILE...");
  command->add_option("--before", w->before, "Traces of repeated runs before the change, a file each")
      ->type_name("FILE...");
  command->add_option("--after", w->after, "Of runs after it; three and three or more distinguish a change from chance")
      ->type_name("FILE...");
  command
      ->add_option("--fail-over", w->fail_over,
                   "Exit code 5 where wall time, GPU busy time, a stage or a GPU operation became slower by more than "
                   "this (5%) and, with repeated runs, significantly so")
      ->check(not_empty())
      ->type_name("SHARE");
  command->add_flag("--allow-incomplete", w->allow_incomplete,
                    "Compare files that do not hold a whole trace (cut short, a part, limited in size), too");
  command->add_flag("--json{-}", w->json,
                    "All rows as one JSON document on standard output, or in FILE with --json=FILE");
  w->choice.add_options(*command);
  w->view.add_options(*command, "Rows of each table (10)");
  command->footer(
      "Rows compare the mean of one operation; \"in all\" is the change of its total in a run.\n"
      "Exit code: 0; 5 as of --fail-over; 4 a file could not be read in whole, whatever was found; 125 not at\n"
      "all, or it is incomplete.\n"
      "Examples:\n"
      "  cutrace diff before.jsonl after.jsonl\n"
      "  cutrace diff --before a1.jsonl a2.jsonl a3.jsonl --after b1.jsonl b2.jsonl b3.jsonl --fail-over 5%\n"
      "  cutrace diff before.jsonl after.jsonl --stage decode --json | jq '.gpu_operations[0]'");
  command->callback([w, &exit_status] {
    remove_unfinished_files_when_interrupted();
    exit_status = run_diff(*w);
  });
}

}  // namespace cutrace_tool
