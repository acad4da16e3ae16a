// SPDX-License-Identifier: Apache-2.0
#include "made_of_it.hpp"

#include <cutrace/sinks/ascii.hpp>
#include <cutrace/sinks/calls.hpp>
#include <cutrace/sinks/chrome.hpp>
#include <cutrace/sinks/html.hpp>
#include <cutrace/sinks/jsonl.hpp>
#include <cutrace/sinks/perfetto.hpp>
#include <memory>
#include <vector>

#include "cutrace/analysis_sink.hpp"
#include "cutrace/redact.hpp"
#include "report/clock_log.hpp"
#include "report/findings.hpp"
#include "report/pages/csv.hpp"
#include "report/pages/json.hpp"
#include "report/pages/text.hpp"
#include "report/pages/why_html.hpp"
#include "report/pages/why_json.hpp"
#include "report/pages/why_text.hpp"
#include "report/why.hpp"

namespace fuzz {

namespace {

/// Beginning and end as the command's reports have them (report_command.cpp, why_command.cpp).
class report_sink : public cutrace_tool::analysis_sink {
 public:
  std::size_t bytes = 0;  ///< of all that was made

  void open(const cutrace::trace_info& info) override {
    info_ = info;
    who_ = cutrace::ascii::identity(info);
    analysis_sink::open(info);
  }
  void write(cutrace::event_view events) override {
    analysis_sink::write(events);
    for (const cutrace::event& e : events) clocks_.add(e);
  }
  void close(const cutrace::trace_summary& end) override {
    namespace analysis = cutrace::analysis;
    const analysis::inference_names names;
    const analysis::trace_results r = finish(end, &names);
    analysis::finding_options rules;
    rules.lost = end.totals.lost_total();
    const std::vector<analysis::finding> found = analysis::find_findings(all().log(), r, rules);
    bytes += cutrace::report_text(all(), r, found, who_, end, {}).size();
    const cutrace::tables::report report{all(), r, found, info_, end, SIZE_MAX};
    bytes += cutrace::report_json(report).size();
    for (const auto& file : cutrace::report_csv(report)) bytes += file.text.size();
    analysis::why_finder finder(all().log(), r, all().ioctls().switched(), clocks_);
    std::vector<analysis::why_report> reports;
    for (const std::uint32_t request : finder.by_latency())
      if (reports.size() < 3) reports.push_back(finder.find(request));
    for (const analysis::why_report& one : reports) bytes += cutrace::why_text(one, 100, false, true).size();
    bytes += cutrace::why_json(reports).size() + cutrace::why_html(reports, "fuzz").size();
  }

 private:
  cutrace::trace_info info_{};
  cutrace::ascii::identity who_;
  cutrace::analysis::clock_log clocks_;
};

/// In front of a sink that it owns.
class redacted : public cutrace::sink {
 public:
  explicit redacted(std::unique_ptr<cutrace::sink> to) : to_(std::move(to)), redact_(*to_, {}) {}
  void open(const cutrace::trace_info& info) override { redact_.open(info); }
  void write(cutrace::event_view events) override { redact_.write(events); }
  void close(const cutrace::trace_summary& end) override { redact_.close(end); }

 private:
  std::unique_ptr<cutrace::sink> to_;
  cutrace_tool::redact_sink redact_;
};

}  // namespace

std::unique_ptr<cutrace::sink> make_of_it(unsigned which) {
  const char* const nowhere = "/dev/null";
  switch (which % 8) {
    case 1:
      return std::make_unique<report_sink>();
    case 2: {
      cutrace::html_options page;
      page.path = nowhere;
      return std::make_unique<cutrace::html_sink>(page);
    }
    case 3: {
      cutrace::perfetto_options arguments;
      arguments.arguments = true;
      return std::make_unique<cutrace::perfetto_sink>(nowhere, arguments);
    }
    case 4:
      return std::make_unique<cutrace::chrome_sink>(nowhere);
    case 5:
      return std::make_unique<cutrace::calls_sink>(nowhere);
    case 6:
      return std::make_unique<cutrace::ascii_sink>(nowhere);
    case 7:
      return std::make_unique<redacted>(std::make_unique<cutrace::jsonl_sink>(nowhere));
    default:
      return nullptr;
  }
}

}  // namespace fuzz
