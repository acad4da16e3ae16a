// SPDX-License-Identifier: Apache-2.0
// Sinks by name, as CUTRACE_SINKS and session_options::sinks ask for them:
//   "ascii,jsonl:t.jsonl?form=paired,chrome:trace-%h-%p.json"
// Words are separated by commas: name[:path][?key=value&key=value...]. Caller's thread; errors are config_error.
#pragma once

#include <cstddef>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/ascii.hpp>
#include <cutrace/sinks/calls.hpp>
#include <cutrace/sinks/chrome.hpp>
#include <cutrace/sinks/jsonl.hpp>
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

/// Names and their factories. One line adds a sink: `registry.add("perfetto", [](sink_spec& s) { ... });`
class sink_registry {
 public:
  void add(std::string name, sink_factory make) { entries_.emplace_back(std::move(name), make); }

  /// Later entries win over earlier ones of the same name; null when there is none.
  sink_factory find(std::string_view name) const noexcept {
    for (std::size_t i = entries_.size(); i-- > 0;) {
      if (entries_[i].first == name) return entries_[i].second;
    }
    return nullptr;
  }

  /// "ascii, calls, ..." for messages.
  std::string names() const {
    std::string all;
    for (const auto& e : entries_) all += (all.empty() ? "" : ", ") + e.first;
    return all;
  }

 private:
  std::vector<std::pair<std::string, sink_factory>> entries_;
};

namespace detail {

template <class Sink>
inline std::unique_ptr<sink> make_file_sink(sink_spec& spec) {
  const std::string path = spec.take_path();
  return path.empty() ? std::unique_ptr<sink>(new Sink()) : std::unique_ptr<sink>(new Sink(path));
}

inline std::unique_ptr<sink> make_ascii_sink(sink_spec& spec) {
  return std::unique_ptr<sink>(new ascii_sink(spec.take_path().c_str()));
}

inline std::unique_ptr<sink> make_null_sink(sink_spec&) { return std::unique_ptr<sink>(new null_sink()); }

inline std::unique_ptr<sink> make_jsonl_sink(sink_spec& spec) {
  jsonl_options options;
  if (spec.take_choice("form", {"events", "paired"}) == "paired") options.form = jsonl_form::paired;
  options.hold_lines = spec.take_number("hold", options.hold_lines, 1000000);
  const std::string path = spec.take_path();
  return std::unique_ptr<sink>(path.empty() ? new jsonl_sink("cutrace-%h-%p.jsonl", options)
                                            : new jsonl_sink(path, options));
}

}  // namespace detail

/// The sinks of this library. A program that has more copies it and adds its own.
inline sink_registry builtin_sinks() {
  sink_registry registry;
  registry.add("ascii", detail::make_ascii_sink);
  registry.add("calls", detail::make_file_sink<calls_sink>);
  registry.add("chrome", detail::make_file_sink<chrome_sink>);
  registry.add("jsonl", detail::make_jsonl_sink);
  registry.add("null", detail::make_null_sink);
  return registry;
}

/// Sinks of a specification, in its order, not opened yet; none for null or empty text. `option` is how messages call
/// the place where the text came from. @throws config_error naming option, offending word and accepted values
inline std::vector<std::unique_ptr<sink>> make_sinks(const char* specification, const char* option = "CUTRACE_SINKS",
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
