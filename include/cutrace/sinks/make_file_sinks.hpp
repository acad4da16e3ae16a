// SPDX-License-Identifier: Apache-2.0
// The sinks for programs, chrome, jsonl, perfetto and prometheus, as sink_registry.hpp names them, and the one behind
// session::on_request_done. Compiled in one source file of a program; in more it does no harm. Without protozero's
// headers the name "perfetto" remains, and says what is missing.
#pragma once

#include <cutrace/config.hpp>
#include <cutrace/sinks/chrome.hpp>
#include <cutrace/sinks/file_spec.hpp>
#include <cutrace/sinks/jsonl.hpp>
#include <cutrace/sinks/prometheus.hpp>
#include <cutrace/sinks/request_done_sink.hpp>
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
  const file_limits limits = take_file_limits(spec);
  const std::string path = spec.take_path();
  return std::unique_ptr<sink>(new chrome_sink(path.empty() ? "cutrace-%h-%p.json" : path, limits));
}
CUTRACE_WEAK std::unique_ptr<sink> make_jsonl_sink(sink_spec& spec) {
  jsonl_options options;
  if (spec.take_choice("form", {"events", "paired"}) == "paired") options.form = jsonl_form::paired;
  options.hold_lines = spec.take_number("hold", options.hold_lines, 1000000);
  options.file = take_file_limits(spec);
  const std::string path = spec.take_path();
  return std::unique_ptr<sink>(path.empty() ? new jsonl_sink("cutrace-%h-%p.jsonl", options)
                                            : new jsonl_sink(path, options));
}
#if defined(CUTRACE_HAS_PERFETTO_SINK)
CUTRACE_WEAK std::unique_ptr<sink> make_perfetto_sink(sink_spec& spec) {
  perfetto_options options;
  options.arguments = spec.take_choice("arguments", {"no", "yes"}) == "yes";
  options.file = take_file_limits(spec);
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
CUTRACE_WEAK std::unique_ptr<sink> make_prometheus_sink(sink_spec& spec) {
  prometheus_options options;
  const std::string to = spec.take_path();
  if (!to.empty()) options.to = to;
  options.stages = spec.take_number("stages", options.stages, 1000, 1);
  options.every_s = static_cast<std::uint32_t>(spec.take_number("every", options.every_s, 3600, 1));
  options.readable_by_all = spec.take_choice("readable", {"owner", "all"}) == "all";
  return std::unique_ptr<sink>(new prometheus_sink(options));
}
CUTRACE_WEAK std::unique_ptr<sink> make_request_done_sink(request_done_handler handler, void* user) {
  return std::unique_ptr<sink>(new request_done_sink(handler, user));
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
