// SPDX-License-Identifier: Apache-2.0
// Names that users write and read: words of enumerations, fields of files, options of sinks and sessions, environment
// variables. They come from the code itself: its functions, its files, its messages and its literals.
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/cutrace.hpp>
#include <cutrace/names.hpp>
#include <cutrace/run/settings.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "golden.hpp"
#include "support/temporary_folder.hpp"

namespace golden {

namespace {

/// All values of an enumeration that have a word, with their numbers, and the word of one that has none.
template <class Enumeration>
std::string words_of(const char* title) {
  const std::string unknown = cutrace::to_string(static_cast<Enumeration>(255));
  std::string text = std::string(title) + ": 255 " + unknown;
  for (unsigned value = 0; value < 64; ++value) {
    const std::string word = cutrace::to_string(static_cast<Enumeration>(value));
    if (word != unknown) text += ", " + std::to_string(value) + " " + word;
  }
  return text + "\n";
}

using paths = std::map<std::string, std::set<std::string>>;

/// Where each value stands: "a.b[].c".
void add_paths(std::set<std::string>& to, const nlohmann::json& value, const std::string& path) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) add_paths(to, inner, path.empty() ? key : path + "." + key);
  } else if (value.is_array()) {
    for (const nlohmann::json& inner : value) add_paths(to, inner, path + "[]");
  } else {
    to.insert(path);
  }
}

std::string text_of(const char* title, const paths& all) {
  std::string text;
  for (const auto& [kind, fields] : all) {
    text += std::string(title) + " " + kind + "\n";
    for (const std::string& f : fields) text += "  " + f + "\n";
  }
  return text;
}

/// What is said of a sink's specification; empty where it is accepted.
std::string complaint_about(const std::string& specification) {
  try {
    cutrace::make_sinks(specification.c_str());
  } catch (const cutrace::config_error& e) {
    return e.what();
  }
  return {};
}

/// What a message names behind "accepted: ".
std::vector<std::string> accepted_by(const std::string& message) {
  const std::size_t at = message.find("accepted: ");
  if (at == message.npos) throw std::runtime_error("nothing is accepted: " + message);
  std::vector<std::string> words;
  std::istringstream in(message.substr(at + 10));
  for (std::string word; in >> word;) words.push_back(word.substr(0, word.find(',')));
  return words;
}

std::string options_of_sinks() {
  const std::string unknown = complaint_about("unknown");
  std::string text = unknown + "\n";
  for (const std::string& sink : accepted_by(unknown)) {
    const std::string keys = complaint_about(sink + "?unknown=1");
    text += keys + "\n";
    for (const std::string& key : accepted_by(keys)) {
      if (key != "none") text += complaint_about(sink + "?" + key + "=?") + "\n";
    }
  }
  return text;
}

/// What is said where a session begins; "accepted" where nothing is.
std::string said_of(cutrace::session_options options) {
  std::string said;
  options.on_error_user = &said;
  options.on_error = [](const char*, const char* message, void* user) noexcept {
    *static_cast<std::string*>(user) += message;
  };
  try {
    const cutrace::session s(options);
  } catch (const cutrace::config_error& e) {
    said += e.what();
  }
  const std::size_t cupti = said.find(", cupti");  // a backend that a build has where CUPTI's headers are
  if (cupti != said.npos) said.erase(cupti, 7);
  return said.empty() ? "accepted" : said;
}

std::string options_of_sessions() {
  static const char* const variables[] = {
      "CUTRACE",
      "CUTRACE_BACKEND",
      "CUTRACE_DURATION",
      "CUTRACE_MEMORY_LIMIT",
      "CUTRACE_LEAVE_WAIT_MS",
      "CUTRACE_NVTX",
      "CUTRACE_OVERFLOW",
      "CUTRACE_SAMPLE",
      "CUTRACE_SINK_DEADLINE_MS",
      "CUTRACE_SINKS",
      "CUTRACE_START_AFTER",
      "CUTRACE_WINDOW_MS",
  };
  std::string text;
  for (const char* variable : variables) {
    ::setenv(variable, "?", 1);
    text += said_of({}) + "\n";
    ::unsetenv(variable);
  }
  cutrace::session_options o;
  o.memory_limit_bytes = 1;
  text += said_of(o) + "\n";
  o = {};
  o.sample = "?";
  text += said_of(o) + "\n";
  o = {};
  o.sinks = "?";
  text += said_of(o) + "\n";
  return text;
}

/// "CUTRACE..." in capitals, as literals of a source file name variables.
void add_variables(std::set<std::string>& to, const std::string& code) {
  constexpr std::string_view begin = "\"CUTRACE";
  for (std::size_t at = code.find(begin); at != code.npos; at = code.find(begin, at + 1)) {
    const std::size_t end = code.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", at + 1);
    if (end != code.npos && (code[end] == '"' || code[end] == '=')) to.insert(code.substr(at + 1, end - at - 1));
  }
}

bool is_source(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".hpp" || extension == ".cpp" || extension == ".h" || extension == ".c";
}

}  // namespace

files names(const context&) {
  using namespace cutrace;
  return {{"names.txt", words_of<event_kind>("event_kind") + words_of<attribution>("attribution") +
                            words_of<copy_direction>("copy_direction") + words_of<memory_kind>("memory_kind") +
                            words_of<sync_kind>("sync_kind") + words_of<memory_operation>("memory_operation") +
                            words_of<stage_origin>("stage_origin") + words_of<ioctl_device>("ioctl_device") +
                            words_of<loss_cause>("loss_cause") + words_of<quality>("quality")}};
}

files fields(const context& c) {
  paths events, paired, chrome, documents;
  for (const char* set : {"sample", "random 1"}) {
    std::istringstream lines(written_by("jsonl", set));
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json event = nlohmann::json::parse(line);
      add_paths(events[event.at("type").get<std::string>()], event, {});
    }
    std::istringstream pairs(written_by("jsonl?form=paired", set));
    for (std::string line; std::getline(pairs, line);) {
      const nlohmann::json event = nlohmann::json::parse(line);
      add_paths(paired[event.value("phase", "") + " " + event.value("type", event.value("kind", ""))], event, {});
    }
    nlohmann::json document = nlohmann::json::parse(written_by("chrome", set));
    for (const nlohmann::json& event : document.at("traceEvents"))
      add_paths(chrome[event.at("ph").get<std::string>() + " " + event.value("cat", "")], event, {});
    document.erase("traceEvents");
    add_paths(documents["chrome"], document, {});
  }
  for (const auto& [name, content] : report(c)) {
    if (name.find(".json") != name.npos) add_paths(documents["report"], nlohmann::json::parse(content), {});
  }
  add_paths(documents["diff"], nlohmann::json::parse(diff(c).at("diff.json")), {});
  return {{"fields.txt", text_of("jsonl", events) + text_of("jsonl?form=paired", paired) + text_of("chrome", chrome) +
                             text_of("document", documents)}};
}

files options(const context&) { return {{"options.txt", options_of_sinks() + options_of_sessions()}}; }

files variables(const context& c) {
  std::set<std::string> all;
  for (const char* part : {"include", "backends", "tools"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(c.source + "/" + part)) {
      if (entry.is_regular_file() && is_source(entry.path())) add_variables(all, content_of(entry.path().string()));
    }
  }
  std::string text;
  for (const std::string& name : all) {
    text += name + "\n";
    const bool was_set = ::getenv(name.c_str()) != nullptr;
    ::setenv(name.c_str(), "?", 0);
    const std::string unknown = cutrace::detail::about_unknown_variables();
    if (unknown.find(name) != unknown.npos) throw std::runtime_error("a session would say that " + unknown);
    if (!was_set) ::unsetenv(name.c_str());
  }
  return {{"variables.txt", text}};
}

}  // namespace golden
