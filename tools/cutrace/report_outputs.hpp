// SPDX-License-Identifier: Apache-2.0
// Where a report goes besides the terminal: JSON, CSV and HTML files. Names are checked before anything is read.
#pragma once

#include <cutrace/sinks/html.hpp>
#include <memory>
#include <string>
#include <vector>

#include "report/pages/tables.hpp"

namespace CLI {
class App;
}

namespace cutrace_tool {

/// @throws usage_error where `path` asks for compression, which `option` does not do
void refuse_gz(const std::string& option, const std::string& path);
/// Before a trace is read, which may take minutes. @throws usage_error where the file `path` can surely not be written
void refuse_place(const std::string& option, const std::string& path);
/// Writes a file that is complete or not there, mode 0600; "-" is standard output. @throws cutrace::error
void write_whole_file(const std::string& path, const std::string& text);

struct report_outputs {
  std::string json;  ///< "-": standard output; empty: none
  std::string csv;   ///< folder
  std::string html;

  /// --json, --csv and --html.
  void add_options(CLI::App& command);
  bool any() const { return !json.empty() || !csv.empty() || !html.empty(); }
  /// @throws usage_error for a name that would overwrite what is read, or is surely a mistake
  void check(const std::vector<std::string>& inputs) const;
  /// The sink of --html, which is to get all events; its `close` writes the page. nullptr: no HTML is wanted.
  std::unique_ptr<cutrace::html_sink> make_html() const;
  /// JSON and CSV. @throws cutrace::error where one cannot be written
  void write(const cutrace::tables::report& report) const;
};

}  // namespace cutrace_tool
