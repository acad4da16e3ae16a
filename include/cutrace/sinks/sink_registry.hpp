// SPDX-License-Identifier: Apache-2.0
// Sinks by name, as CUTRACE_SINKS and session_options::sinks ask for them:
//   "ascii,jsonl:t.jsonl?form=paired,chrome:trace-%h-%p.json"
// Words are separated by commas: name[:path][?key=value&key=value...]. Caller's thread; errors are config_error.
#pragma once

#include <cutrace/config.hpp>
#include <cutrace/request_done.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/null.hpp>
#include <cutrace/sinks/sink_spec.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE

/// Makes a sink of a word; takes what it understands from the spec, whatever is left is an error.
using sink_factory = std::unique_ptr<sink> (*)(sink_spec&);

/// Names and their factories. One line adds a sink: `registry.add("mine", [](sink_spec& s) { ... });`
class sink_registry {
 public:
  CUTRACE_NOINLINE void add(std::string name, sink_factory make) { entries_.emplace_back(std::move(name), make); }

  /// Later entries win over earlier ones of the same name; null when there is none.
  CUTRACE_NOINLINE sink_factory find(std::string_view name) const noexcept {
    for (std::size_t i = entries_.size(); i-- > 0;) {
      if (entries_[i].first == name) return entries_[i].second;
    }
    return nullptr;
  }

  /// "ascii, calls, ..." for messages.
  CUTRACE_NOINLINE std::string names() const {
    std::string all;
    for (const auto& e : entries_) all += (all.empty() ? "" : ", ") + e.first;
    return all;
  }

 private:
  std::vector<std::pair<std::string, sink_factory>> entries_;
};

namespace detail CUTRACE_LOCAL {

// Defined in make_text_sinks.hpp and make_file_sinks.hpp, each of which one source file of the program compiles: who
// names a sink does not compile it, and what is missing is missed by the linker, also from a static library.
std::unique_ptr<sink> make_ascii_sink(sink_spec& spec);
std::unique_ptr<sink> make_calls_sink(sink_spec& spec);
std::unique_ptr<sink> make_chrome_sink(sink_spec& spec);
std::unique_ptr<sink> make_html_sink(sink_spec& spec);
std::unique_ptr<sink> make_jsonl_sink(sink_spec& spec);
std::unique_ptr<sink> make_perfetto_sink(sink_spec& spec);
std::unique_ptr<sink> make_prometheus_sink(sink_spec& spec);
std::unique_ptr<sink> make_request_done_sink(request_done_handler handler, void* user);
inline std::unique_ptr<sink> make_null_sink(sink_spec&) { return std::unique_ptr<sink>(new null_sink()); }

}  // namespace CUTRACE_LOCAL

/// The sinks of this library. A program that has more copies it and adds its own.
CUTRACE_NOINLINE inline sink_registry builtin_sinks() {
  sink_registry registry;
  registry.add("ascii", detail::make_ascii_sink);
  registry.add("calls", detail::make_calls_sink);
  registry.add("chrome", detail::make_chrome_sink);
  registry.add("html", detail::make_html_sink);
  registry.add("jsonl", detail::make_jsonl_sink);
  registry.add("null", detail::make_null_sink);
  registry.add("perfetto", detail::make_perfetto_sink);
  registry.add("prometheus", detail::make_prometheus_sink);
  return registry;
}

/// Sinks of a specification, in its order, not opened yet; none for null or empty text. `option` is how messages call
/// the place where the text came from. @throws config_error naming option, offending word and accepted values
CUTRACE_NOINLINE inline std::vector<std::unique_ptr<sink>> make_sinks(const char* specification,
                                                                      const char* option = "CUTRACE_SINKS",
                                                                      const sink_registry& registry = builtin_sinks()) {
  std::vector<std::unique_ptr<sink>> sinks;
  for (sink_spec& spec : detail::parse_sink_specs(specification, option)) {
    const sink_factory make = registry.find(spec.name());
    if (make == nullptr) {
      spec.fail("unknown sink \"" + spec.name() + "\"; accepted: " + registry.names());
    }
    sinks.push_back(make(spec));
    spec.expect_all_taken();
  }
  return sinks;
}

CUTRACE_END_NAMESPACE
