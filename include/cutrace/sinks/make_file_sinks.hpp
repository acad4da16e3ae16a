// SPDX-License-Identifier: Apache-2.0
// The sinks for programs, chrome, jsonl and prometheus, as sink_registry.hpp names them. Compiled in one source file of
// a program; in more it does no harm.
#pragma once

#include <cutrace/config.hpp>
#include <cutrace/sinks/chrome.hpp>
#include <cutrace/sinks/file_spec.hpp>
#include <cutrace/sinks/jsonl.hpp>
#include <cutrace/sinks/prometheus.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <memory>
#include <string>

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
CUTRACE_WEAK std::unique_ptr<sink> make_prometheus_sink(sink_spec& spec) {
  prometheus_options options;
  const std::string to = spec.take_path();
  if (!to.empty()) options.to = to;
  options.stages = spec.take_number("stages", options.stages, 1000, 1);
  options.every_s = static_cast<std::uint32_t>(spec.take_number("every", options.every_s, 3600, 1));
  options.readable_by_all = spec.take_choice("readable", {"owner", "all"}) == "all";
  return std::unique_ptr<sink>(new prometheus_sink(options));
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
