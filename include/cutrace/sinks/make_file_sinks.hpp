// SPDX-License-Identifier: Apache-2.0
// The sinks for programs, chrome, jsonl and perfetto, as sink_registry.hpp names them. Compiled in one source file of a
// program; in more it does no harm. Without protozero's headers the name "perfetto" remains, and says what is missing.
#pragma once

#include <cutrace/config.hpp>
#include <cutrace/sinks/chrome.hpp>
#include <cutrace/sinks/jsonl.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <memory>
#include <string>

// Included nowhere else, so no two files of a program can see it differently.
#if !defined(CUTRACE_WITHOUT_PERFETTO) && defined(__has_include)
#if __has_include(<protozero/pbf_writer.hpp>)
#include <cutrace/sinks/perfetto.hpp>
#define CUTRACE_HAS_PERFETTO_SINK 1
#endif
#endif

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

CUTRACE_WEAK std::unique_ptr<sink> make_chrome_sink(sink_spec& spec) {
  const std::string path = spec.take_path();
  return std::unique_ptr<sink>(path.empty() ? new chrome_sink() : new chrome_sink(path));
}
CUTRACE_WEAK std::unique_ptr<sink> make_jsonl_sink(sink_spec& spec) {
  jsonl_options options;
  if (spec.take_choice("form", {"events", "paired"}) == "paired") options.form = jsonl_form::paired;
  options.hold_lines = spec.take_number("hold", options.hold_lines, 1000000);
  const std::string path = spec.take_path();
  return std::unique_ptr<sink>(path.empty() ? new jsonl_sink("cutrace-%h-%p.jsonl", options)
                                            : new jsonl_sink(path, options));
}
#if defined(CUTRACE_HAS_PERFETTO_SINK)
CUTRACE_WEAK std::unique_ptr<sink> make_perfetto_sink(sink_spec& spec) {
  perfetto_options options;
  options.arguments = spec.take_choice("arguments", {"no", "yes"}) == "yes";
  const std::string path = spec.take_path();
  return std::unique_ptr<sink>(path.empty() ? new perfetto_sink("cutrace-%h-%p.pftrace", options)
                                            : new perfetto_sink(path, options));
}
#else
CUTRACE_WEAK std::unique_ptr<sink> make_perfetto_sink(sink_spec& spec) {
  spec.fail(
      "this program was built without the perfetto sink: the headers of protozero were missing (Debian: "
      "libprotozero-dev); install them and build again, or choose chrome, whose files ui.perfetto.dev opens too");
}
#endif

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
