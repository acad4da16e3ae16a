// SPDX-License-Identifier: Apache-2.0
#include "cutrace/output_sink.hpp"

#include <cutrace/output/path_pattern.hpp>
#include <cutrace/output/trace_file.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <filesystem>
#include <string_view>

#include "cutrace/exit_status.hpp"
#include "cutrace/say.hpp"

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

/// The pattern's part that has the same number as the file `input`, if that ends in one; else the pattern.
std::string part_as(std::string pattern, const std::string& input) {
  std::error_code none;
  std::string name = std::filesystem::canonical(input, none).string();
  const std::size_t at = cutrace::detail::part_number_at(pattern), behind = pattern.size() - at;
  name.resize(name.size() - std::min(behind, name.size()));
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
  if (digits != 0 && name[digits - 1] == '.' && name.size() - digits >= 4) pattern.insert(at, name.substr(digits - 1));
  return pattern;
}

}  // namespace

void refuse_input(const std::string& option, const std::string& path, const std::vector<std::string>& inputs) {
  if (path.empty() || path == "-") return;
  std::error_code none;
  for (const std::string& input : inputs)
    for (const char* const end : {"", ".tmp"})  // the name until a file is complete
      if (std::filesystem::equivalent(path + end, input, none))
        throw usage_error(option + " would overwrite " + input +
                          ", which is the file that is read; choose another name");
}

std::unique_ptr<cutrace::sink> make_output_sink(const std::string& word, const std::vector<std::string>& inputs) {
  const cutrace::sink_registry registry = cutrace::builtin_sinks();
  const std::size_t query = std::min(word.find('?'), word.size());
  const std::size_t colon = std::min(word.find(':'), query);
  std::string specification = word, pattern = colon < query ? word.substr(colon + 1, query - colon - 1) : std::string();
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
    pattern = cutrace::detail::pattern_of_path(word);
    specification = std::string(sink) + ":" + pattern;
  }
  try {
    const bool in_parts = word.find("rotate=", query) != std::string::npos;
    // A pattern with %u takes a name that is free.
    if (!pattern.empty() && !cutrace::detail::is_unique_pattern(pattern))
      for (const std::string& input : inputs)
        for (const std::string& written : {pattern, in_parts ? part_as(pattern, input) : pattern})
          refuse_input("-o " + word, cutrace::detail::expand_path(written), {input});
    cutrace::sink_spec spec("-o", specification);
    std::unique_ptr<cutrace::sink> made = registry.find(spec.name())(spec);
    spec.expect_all_taken();
    return made;
  } catch (const std::exception& e) {
    throw usage_error(e.what());
  }
}

void print_left_out(const cutrace::sink& to) {
  const std::uint64_t events = to.left_out();
  if (events != 0)
    say(std::string("cutrace: ") + to.name() + " left " + std::to_string(events) +
        " events out: " + to.left_out_because());
}

}  // namespace cutrace_tool
