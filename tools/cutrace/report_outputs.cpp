// SPDX-License-Identifier: Apache-2.0
#include "cutrace/report_outputs.hpp"

#include <CLI/CLI.hpp>
#include <cutrace/error.hpp>
#include <cutrace/output/output_file.hpp>
#include <cutrace/output/path_pattern.hpp>
#include <filesystem>
#include <system_error>

#include "cutrace/exit_status.hpp"
#include "cutrace/help_format.hpp"  // not_empty
#include "cutrace/output_sink.hpp"  // refuse_input
#include "report/pages/csv.hpp"
#include "report/pages/json.hpp"

namespace cutrace_tool {

namespace {

namespace fs = std::filesystem;

bool ends_with(const std::string& s, const std::string& end) {
  return s.size() > end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

void refuse_gz(const std::string& option, const std::string& path) {
  if (ends_with(path, ".gz"))
    throw usage_error(option + " " + path +
                      ": this is not compressed; leave .gz out of the name, or write to - and pipe it into gzip");
}

void refuse_place(const std::string& option, const std::string& path) {
  if (path.empty() || path == "-") return;
  std::error_code none;
  const fs::path parent = fs::path(path).parent_path();
  if (fs::is_directory(path, none)) throw usage_error(option + " is a directory; name a file in it");
  if (parent.empty() || fs::is_directory(parent, none)) return;
  if (none == std::errc::permission_denied)
    throw usage_error(option + ": the folder " + parent.string() + " cannot be entered: Permission denied");
  if (fs::exists(parent, none)) throw usage_error(option + ": " + parent.string() + " is a file and no folder");
  throw usage_error(option + ": there is no folder " + parent.string() + "; make it first (mkdir -p)");
}

void write_whole_file(const std::string& path, const std::string& text) {
  cutrace::detail::output_file file;
  file.open(cutrace::detail::pattern_of_path(path).c_str(), cutrace::detail::publish::at_close);
  file.write(text);
  file.close();
}

void report_outputs::add_options(CLI::App& command) {
  command.add_flag(
      "--json{-}", json,
      "All numbers as one JSON document on standard output, or in FILE with --json=FILE. With --json, --csv "
      "or --html no text is printed");
  command.add_option("--csv", csv, "A folder with a CSV file for each table")->check(not_empty())->type_name("DIR");
  command.add_option("--html", html, "A page for a browser: findings, timeline, tables that sort; FILE ends in .html")
      ->check(not_empty())
      ->type_name("FILE");
}

void report_outputs::check(const std::vector<std::string>& inputs) const {
  refuse_input("--json=" + json, json, inputs);
  refuse_place("--json=" + json, json);
  if (!json.empty()) refuse_gz("--json", json);
  if (!html.empty()) {
    refuse_gz("--html", html);
    // Who writes "--html t.jsonl" means a switch, and would lose the trace.
    if (html != "-" && !ends_with(html, ".html"))
      throw usage_error("--html " + html + " takes the page's name, which ends in .html, or - for standard output");
    refuse_input("--html " + html, html, inputs);
    refuse_place("--html " + html, html);
  }
  if (json == "-" && html == "-") throw usage_error("--json and --html - cannot both be standard output");
  if (csv == "-")
    throw usage_error("--csv - would be standard output, which is one file; give a folder for a file of each table");
  std::error_code none;
  if (!csv.empty() && fs::exists(csv, none) && !fs::is_directory(csv, none))
    throw usage_error("--csv " + csv + " is a file; give a folder, which is created where it is missing");
}

std::unique_ptr<cutrace::html_sink> report_outputs::make_html() const {
  if (html.empty()) return nullptr;
  cutrace::html_options options;
  options.path = cutrace::detail::pattern_of_path(html);
  return std::make_unique<cutrace::html_sink>(options);
}

void report_outputs::write(const cutrace::tables::report& report) const {
  if (!json.empty()) write_whole_file(json, cutrace::report_json(report));
  if (csv.empty()) return;
  std::error_code failed;
  fs::create_directories(csv, failed);
  if (failed) throw cutrace::error(("--csv " + csv + " cannot be created: " + failed.message()).c_str());
  for (const cutrace::tables::csv_out::file& f : cutrace::report_csv(report))
    write_whole_file(csv + "/" + f.name + ".csv", f.text);
}

}  // namespace cutrace_tool
