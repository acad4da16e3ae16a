// SPDX-License-Identifier: Apache-2.0
#include "cutrace/output_sink.hpp"

#include <cutrace/output/path_pattern.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <filesystem>
#include <string_view>

#include "cutrace/exit_status.hpp"

namespace cutrace_tool {

namespace {

bool ends_with(const std::string& s, const std::string& end) {
  return s.size() > end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}

/// Name of the sink that writes files with this extension; nullptr: there is none.
const char* sink_of_extension(std::string file) {
  if (ends_with(file, ".gz")) file.resize(file.size() - 3);
  constexpr const char* known[][2] = {
      {".jsonl", "jsonl"}, {".json", "chrome"},     {".pftrace", "perfetto"}, {".perfetto-trace", "perfetto"},
      {".html", "html"},   {".calls.txt", "calls"}, {".txt", "ascii"},        {".prom", "prometheus"}};
  for (const auto& k : known)
    if (ends_with(file, k[0])) return k[1];
  return nullptr;
}

}  // namespace

std::unique_ptr<cutrace::sink> make_output_sink(const std::string& word, const std::vector<std::string>& inputs) {
  const cutrace::sink_registry registry = cutrace::builtin_sinks();
  const std::size_t query = std::min(word.find('?'), word.size());
  const std::size_t colon = std::min(word.find(':'), query);
  std::string specification = word, path = colon < query ? word.substr(colon + 1, query - colon - 1) : std::string();
  if (registry.find(word.substr(0, colon)) == nullptr) {
    const char* const sink = sink_of_extension(word);
    const std::string_view meant = colon < query ? registry.nearest(word.substr(0, colon)) : std::string_view();
    if (sink == nullptr)
      throw usage_error("-o " + word + " has no sink's name before a colon, and no known extension" +
                        (meant.empty() ? "" : " (did you mean " + std::string(meant) + word.substr(colon) + "?)") +
                        "; accepted: " + output_words);
    if (word.find('?') != std::string::npos)
      throw usage_error(
          "-o " + word +
          ": what follows a question mark are options, which need the sink's name before the file: SINK:FILE?OPTIONS");
    path = word;
    specification = std::string(sink) + ":" + cutrace::detail::pattern_of_path(word);
  }
  for (const std::string& input : inputs) {
    std::error_code none;
    if (!path.empty() && std::filesystem::equivalent(path, input, none))
      throw usage_error("-o " + word + " is the file that is read; choose another name");
  }
  try {
    cutrace::sink_spec spec("-o", specification);
    std::unique_ptr<cutrace::sink> made = registry.find(spec.name())(spec);
    spec.expect_all_taken();
    return made;
  } catch (const std::exception& e) {
    throw usage_error(e.what());
  }
}

}  // namespace cutrace_tool
