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

  /// The name that somebody may have meant, or an empty one.
  CUTRACE_NOINLINE std::string_view nearest(std::string_view name) const {
    std::vector<std::string_view> known;
    for (const auto& e : entries_) known.emplace_back(e.first);
    return detail::nearest_word(name, known);
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

// Defined in make_text_sinks.hpp and make_file_sinks.hpp. One source file of the program includes each of the two;
// files that only name sinks do not compile them. A definition that is missing is an error of the linker.
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

/// The sinks of this library. A program with sinks of its own copies this registry and adds them.
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

namespace detail CUTRACE_LOCAL {

/// The sink of one word. `on_stdout`: an earlier sink writes to standard output; set to true if this one does.
CUTRACE_NOINLINE inline std::unique_ptr<sink> make_sink(std::string_view option, std::string_view word,
                                                        const sink_registry& registry, bool& on_stdout) {
  sink_spec spec(option, word);
  const std::size_t semicolon = word.find(';');
  if (semicolon != word.npos) {
    const std::string_view behind = word.substr(semicolon + 1);
    const std::string_view name = behind.substr(0, behind.find_first_of(":?;"));
    if (registry.find(name) != nullptr || registry.find(word.substr(0, semicolon)) != nullptr)
      spec.fail("sinks are separated by commas, not by \";\"");
  }
  const sink_factory make = registry.find(spec.name());
  if (make == nullptr) {
    const std::string_view meant = registry.nearest(spec.name());
    spec.fail("unknown sink \"" + spec.name() + "\"" +
              (meant.empty() ? std::string() : " (did you mean \"" + std::string(meant) + "\"?)") +
              "; a file stands behind a colon, as in jsonl:FILE; accepted: " + registry.names());
  }
  if (spec.path() == "-" || spec.path() == "/dev/stdout") {
    if (on_stdout) spec.fail("standard output is another sink's already; give this one a file");
    on_stdout = true;
  }
  std::unique_ptr<sink> made = make(spec);
  spec.expect_all_taken();
  return made;
}

}  // namespace CUTRACE_LOCAL

/// Sinks of a specification, in its order, not opened yet; none for null or empty text. `option`: name of the variable
/// or flag that the text came from, for messages. `refused`: where not null, collects the messages of words that cannot
/// be used, and the other sinks are made; where null, the first such word throws. @throws config_error naming option,
/// offending word and accepted values; with `refused`, only where no word can be used
CUTRACE_NOINLINE inline std::vector<std::unique_ptr<sink>> make_sinks(const char* specification,
                                                                      const char* option = "CUTRACE_SINKS",
                                                                      const sink_registry& registry = builtin_sinks(),
                                                                      std::vector<std::string>* refused = nullptr) {
  std::vector<std::unique_ptr<sink>> sinks;
  bool on_stdout = false;
  for (const std::string_view word : detail::sink_words(specification != nullptr ? specification : "")) {
    try {
      if (word.empty())
        throw config_error((std::string(option) + ": \"" + specification + "\": a sink's name is missing").c_str());
      sinks.push_back(detail::make_sink(option, word, registry, on_stdout));
    } catch (const config_error& e) {
      if (refused == nullptr) throw;
      refused->emplace_back(e.what());
    }
  }
  if (sinks.empty() && refused != nullptr && !refused->empty()) throw config_error(refused->front().c_str());
  return sinks;
}

CUTRACE_END_NAMESPACE
