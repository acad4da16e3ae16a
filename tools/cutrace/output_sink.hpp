// SPDX-License-Identifier: Apache-2.0
// Where a command writes a trace: a sink in the words of CUTRACE_SINKS, or a file whose extension says which sink.
#pragma once

#include <cutrace/sink.hpp>
#include <memory>
#include <string>
#include <vector>

namespace cutrace_tool {

/// "perfetto:t.pftrace?arguments=yes", "jsonl:-" or "t.json.gz". `inputs` are files that must not be overwritten.
/// @throws usage_error
std::unique_ptr<cutrace::sink> make_output_sink(const std::string& word, const std::vector<std::string>& inputs);

/// `option`: as the message calls it. @throws usage_error where writing the file `path` would overwrite an input
void refuse_input(const std::string& option, const std::string& path, const std::vector<std::string>& inputs);

/// For the help.
constexpr const char* output_words =
    "jsonl:FILE, chrome:FILE, perfetto:FILE, html:FILE, calls:FILE, ascii:FILE or prometheus:FILE, with options as in "
    "CUTRACE_SINKS (perfetto:t.pftrace?arguments=yes), or a file that ends in .jsonl, .json, .pftrace, .html, "
    ".calls.txt, .txt or .prom, all but .html and .prom also with .gz; - is standard output";

/// Prints one line on stderr where the limit of its file (max=) kept events out.
void print_left_out(const cutrace::sink& to);

}  // namespace cutrace_tool
