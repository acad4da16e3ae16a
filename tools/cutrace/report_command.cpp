// SPDX-License-Identifier: Apache-2.0
#include "cutrace/report_command.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cutrace/analysis_sink.hpp"
#include "cutrace/help_format.hpp"
#include "cutrace/html_page.hpp"
#include "cutrace/report_outputs.hpp"
#include "cutrace/trace_filter.hpp"
#include "cutrace/trace_input.hpp"
#include "cutrace/unfinished_files.hpp"
#include "cutrace/view_options.hpp"
#include "report/findings.hpp"
#include "report/pages/text.hpp"

namespace cutrace_tool {

namespace {

namespace analysis = cutrace::analysis;

struct report_arguments {
  std::vector<std::string> files;
  choice_words choice;
  report_outputs outputs;
  view_options view;
  analysis::inference_names names;
  bool full_names = false;
};

/// Analyses what it is given, and has the text, or has written the other forms, when it is closed.
class report_sink : public analysis_sink {
 public:
  /// @param top rows of each table, 0: as the form has them
  report_sink(const report_outputs& outputs, const cutrace::report_options& options, unsigned top,
              const analysis::inference_names& names)
      : outputs_(outputs), options_(options), top_(top), names_(names), page_(outputs.make_html()) {}
  const char* name() const noexcept override { return "report"; }

  void open(const cutrace::trace_info& info) override {
    info_ = info;  // its texts live until after `close`
    if (page_ != nullptr) page_->open(info);
    who_ = cutrace::ascii::identity(info);
    analysis_sink::open(info);
  }
  void write(cutrace::event_view events) override {
    analysis_sink::write(events);
    if (page_ != nullptr) page_->write(events);
  }
  void close(const cutrace::trace_summary& end) override {
    const analysis::trace_results r = finish(end, &names_);
    analysis::finding_options rules;
    rules.lost = end.totals.lost_total();
    std::vector<analysis::finding> found = analysis::find_findings(all().log(), r, rules);
    if (!outputs_.any()) text_ = report_text(all(), r, found, who_, end, options_);
    outputs_.write({all(), r, found, info_, end, top_ == 0 ? SIZE_MAX : top_});
    if (page_ == nullptr) return;
    page_->show(cutrace::tables::whole_trace_of({all(), r, found, info_, end, SIZE_MAX}));
    page_->close(end);
  }

  const std::string& text() const noexcept { return text_; }

 private:
  const report_outputs& outputs_;
  cutrace::report_options options_;
  unsigned top_;
  const analysis::inference_names& names_;
  std::unique_ptr<cutrace::html_sink> page_;
  cutrace::trace_info info_{};
  cutrace::ascii::identity who_;
  std::string text_;
};

int run_report(report_arguments& w) {
  prepare_to_read(w.files);
  w.outputs.check(w.files);
  cutrace::report_options text = w.view.of_text();
  text.full_names = w.full_names;
  report_sink report(w.outputs, text, w.view.top, w.names);
  const chosen_outcome o = read_chosen(w.files, report, w.choice, w.view.quiet, chosen_for::report);
  if (!o.nothing_chosen) std::fputs(report.text().c_str(), stdout);
  return o.status_or_nothing(status_of(o));
}

}  // namespace

void add_report(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("report", "Where the time of a trace file went, and what to fix first");
  const auto w = std::make_shared<report_arguments>();
  command->formatter(std::make_shared<help_format>("cutrace report [options] FILE..."));
  command->add_option("files", w->files, "Traces, as for cutrace convert")->required()->type_name("FILE...");
  w->choice.add_options(*command);
  w->outputs.add_options(*command);
  const auto names = [&](const char* option, std::vector<std::string>& to, const char* help) {
    command->add_option(option, to, help)
        ->type_name("NAME")
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  names("--queue-stage", w->names.queue,
        "A stage in which requests wait. May be given several times; without it, stages are chosen by words in their "
        "names");
  names("--prefill-stage", w->names.prefill,
        "A stage that ends with a first token, where no marks say so; as --queue-stage");
  names("--decode-stage", w->names.decode, "A stage that ends with a token; as --queue-stage");
  command->add_flag("--full-names", w->full_names,
                    "Kernels in text with return type, namespaces, template arguments and parameters");
  w->view.add_options(*command, "Rows of each table; 10 in text, all else");
  command->footer(
      "Several of --from, --to, --stage, --request and --device apply together; the report is as if the trace held "
      "nothing else.\n"
      "What the numbers mean: docs/analyses.md. Exit code: that of cutrace convert.\n"
      "Examples:\n"
      "  cutrace report cutrace-out/server.jsonl            the first screen says what to fix first\n"
      "  cutrace report t.pftrace --from 2s --to 3s --top 30\n"
      "  cutrace report t.jsonl --json | jq '.findings[0]'\n"
      "  cutrace report t.jsonl --html report.html --csv tables\n"
      "  cutrace report kineto.json.gz                      what PyTorch's profiler wrote");
  command->callback([w, &exit_status] {
    remove_unfinished_files_when_interrupted();
    exit_status = run_report(*w);
  });
}

}  // namespace cutrace_tool
