// SPDX-License-Identifier: Apache-2.0
#include "cutrace/run_sinks.hpp"

#include <algorithm>
#include <cutrace/output/path_pattern.hpp>
#include <cutrace/sinks/prometheus/address.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <filesystem>
#include <map>

#include "cutrace/exit_status.hpp"
#include "cutrace/report_outputs.hpp"  // refuse_place

namespace cutrace_tool {

namespace {

/// How files of a sink end; nullptr for sinks that write none, or that are not ours to name.
const char* extension_of(const std::string& sink) {
  static const std::map<std::string, const char*> known{
      {"ascii", "txt"},   {"calls", "calls.txt"},  {"chrome", "json"},    {"html", "html"},
      {"jsonl", "jsonl"}, {"perfetto", "pftrace"}, {"prometheus", "prom"}};
  const auto at = known.find(sink);
  return at != known.end() ? at->second : nullptr;
}

struct word {
  std::string sink, path, options;  ///< options with their '?'

  explicit word(const std::string& text) {
    const std::size_t query = std::min(text.find('?'), text.size());
    const std::size_t colon = std::min(text.substr(0, query).find(':'), query);
    sink = text.substr(0, colon);
    if (colon < query) path = text.substr(colon + 1, query - colon - 1);
    options = text.substr(query);
  }
  std::string text() const { return sink + (path.empty() ? "" : ":" + path) + options; }
};

std::vector<word> words_of(const std::string& list) {
  std::vector<word> all;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    std::string one = list.substr(at, end - at);
    one.erase(0, one.find_first_not_of(" \t\n"));
    one.erase(one.find_last_not_of(" \t\n") + 1);
    all.emplace_back(one);
    at = end + 1;
  }
  return all;
}

/// Whether it names an address and no file.
bool serves(const word& w) { return w.sink == "prometheus" && cutrace::prometheus::is_address(w.path); }

/// Without this, a missing folder would show only when the program uses CUDA. A name with a pattern is not known yet.
void check_folder(const word& w) {
  const std::filesystem::path parent = std::filesystem::path(w.path).parent_path();
  if (w.path == "-" || serves(w) || parent.string().find('%') != std::string::npos) return;
  refuse_place("\"" + w.text() + "\"", w.path);
}

}  // namespace

std::string compose_sinks(const std::vector<std::string>& lists, const std::string& folder, const std::string& name,
                          const char* option, unsigned columns) {
  std::string all;
  std::map<std::string, int> seen;
  for (const std::string& list : lists) {
    try {
      static_cast<void>(cutrace::make_sinks(list.c_str(), option));
    } catch (const std::exception& e) {
      throw usage_error(e.what());
    }
    for (word w : words_of(list)) {
      const char* extension = extension_of(w.sink);
      if (extension != nullptr && w.path.empty()) {
        const int count = ++seen[w.sink];
        const std::string number = count > 1 ? "." + std::to_string(count) : std::string();
        // `%u` brings its own "-2" where the file exists.
        w.path = cutrace::detail::pattern_of_path(folder + "/" + name) + ".%h.%r.%p%u" + number + "." + extension;
        if (w.sink == "ascii" && columns != 0 && w.options.find("width=") == std::string::npos)
          w.options += (w.options.empty() ? "?width=" : "&width=") + std::to_string(columns);
      } else if (!w.path.empty() && w.path[0] != '/' && w.path != "-" && !serves(w)) {
        // The program may have gone elsewhere by the time the trace begins.
        w.path = cutrace::detail::pattern_of_path(std::filesystem::current_path().string() + "/") + w.path;
      }
      if (extension != nullptr) check_folder(w);
      if (w.path.find_first_of(",?") != std::string::npos)
        throw usage_error("\"" + w.path + "\" holds a comma or a question mark, which names of files in " + option +
                          " cannot have; choose another folder with --out");
      all += (all.empty() ? "" : ",") + w.text();
    }
  }
  if (all.empty()) throw usage_error(std::string(option) + " names no sink");
  try {
    static_cast<void>(cutrace::make_sinks(all.c_str(), option));  // two lists may both want standard output
  } catch (const std::exception& e) {
    throw usage_error(e.what());
  }
  return all;
}

}  // namespace cutrace_tool
