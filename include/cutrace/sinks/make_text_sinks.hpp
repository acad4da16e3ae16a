// SPDX-License-Identifier: Apache-2.0
// The sinks for people, ascii, calls and html, as sink_registry.hpp names them. Compiled in one source file of a
// program; in more it does no harm. With CUTRACE_WITHOUT_HTML the name "html" remains, and says what is missing: for
// programs that use the headers of a git clone, which lacks the generated header of the html sink.
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/sinks/ascii.hpp>
#include <cutrace/sinks/calls.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <cutrace/sinks/sink_spec.hpp>
#include <memory>
#include <string>
#include <utility>

// Included nowhere else, so no two files of a program can see it differently.
#ifndef CUTRACE_WITHOUT_HTML
#include <cutrace/sinks/html.hpp>
#endif

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

CUTRACE_WEAK std::unique_ptr<sink> make_ascii_sink(sink_spec& spec) {
  const std::string path = spec.take_path();
  ascii_options o;
  o.path = path.c_str();
  o.width = static_cast<std::uint32_t>(spec.take_number("width", 0, 400, 80));
  return std::unique_ptr<sink>(new ascii_sink(o));
}
CUTRACE_WEAK std::unique_ptr<sink> make_calls_sink(sink_spec& spec) {
  const file_limits limits = take_file_limits(spec);
  return std::unique_ptr<sink>(new calls_sink(spec.take_path(), limits));
}
#ifndef CUTRACE_WITHOUT_HTML
CUTRACE_WEAK std::unique_ptr<sink> make_html_sink(sink_spec& spec) {
  html_options o;
  const std::string path = spec.take_plain_path();
  if (!path.empty()) o.path = path;
  o.memory_limit_bytes = spec.take_number("memory", o.memory_limit_bytes >> 20, 4096, 2) << 20;
  return std::unique_ptr<sink>(new html_sink(std::move(o)));
}
#else
CUTRACE_WEAK std::unique_ptr<sink> make_html_sink(sink_spec& spec) {
  spec.fail(
      "this program was built without the html sink (CUTRACE_WITHOUT_HTML): build it with an installation or a release "
      "archive of cutrace, or choose ascii, which reports on the terminal");
}
#endif

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
