// SPDX-License-Identifier: Apache-2.0
// Names that users write and read: words of enumerations, fields of files, options of sinks and sessions, environment
// variables. They come from the code itself: its functions, its files, its messages and its literals.
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cutrace/cutrace.hpp>
#include <cutrace/event_fields.hpp>
#include <cutrace/names.hpp>
#include <cutrace/run/settings.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <filesystem>
#include <fstream>
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

/// Types of docs/jsonl.sql that hold every value of a field.
template <class Field>
std::set<std::string> sql_types_of(const Field&) {
  using cutrace::field_form;
  using member = std::decay_t<decltype(Field::of(std::declval<cutrace::event&>()))>;
  switch (Field::form) {
    case field_form::number:
    case field_form::time:
      if (std::is_same_v<member, std::uint32_t>) return {"UINTEGER", "UBIGINT", "BIGINT"};
      if (std::is_same_v<member, std::int32_t>) return {"INTEGER", "BIGINT"};
      return {std::is_same_v<member, std::int64_t> ? "BIGINT" : "UBIGINT"};
    case field_form::flag:
      return {"BOOLEAN"};
    case field_form::triple:
      return {"UINTEGER[]"};
    case field_form::arguments:
    case field_form::payload:
      return {"JSON"};
    default:
      return {"VARCHAR"};
  }
}

/// Words between backticks.
void add_words(std::set<std::string>& to, const std::string& text) {
  std::size_t begin = text.find('`');
  while (begin != text.npos) {
    const std::size_t end = text.find('`', begin + 1);
    if (end == text.npos) return;
    to.insert(text.substr(begin + 1, end - begin - 1));
    begin = text.find('`', end + 1);
  }
}

/// docs/jsonl.md and docs/jsonl.sql name each field that events are described with (event_fields.hpp).
void check_documents(const std::string& source) {
  std::set<std::string> of_all;
  std::map<std::string, std::set<std::string>> of_kind;
  std::ifstream document(source + "/docs/jsonl.md");
  std::string section;
  for (std::string line; std::getline(document, line);) {
    if (line.compare(0, 3, "## ") == 0) section = line.substr(3);
    const std::size_t second = line.find('|', 1);
    if (section == "Fields by type" && line.compare(0, 3, "| `") == 0 && second != line.npos) {
      std::set<std::string> kinds, fields;
      add_words(kinds, line.substr(0, second));
      add_words(fields, line.substr(second));
      for (const std::string& k : kinds) of_kind[k].insert(fields.begin(), fields.end());
    } else if (section == "Fields by type" || section == "Fields of each event") {
      add_words(of_all, line);
    }
  }
  of_kind["stage"].insert(of_kind["mark"].begin(), of_kind["mark"].end());

  std::map<std::string, std::string> columns;
  std::ifstream sql(source + "/docs/jsonl.sql");
  for (std::string word; sql >> word;) {
    std::string type;
    if (word.back() != ':' || !(sql >> type)) continue;
    columns[word.substr(0, word.size() - 1)] = type.substr(1, type.rfind('\'') - 1);
  }

  std::string missing;
  for (std::size_t k = 0; k < cutrace::event_kind_count; ++k) {
    const auto kind = static_cast<cutrace::event_kind>(k);
    const std::string word = cutrace::to_string(kind);
    const auto look = [&](const auto& field) {
      const std::string name(field.name);
      if (of_kind[word].count(name) + of_all.count(name) == 0)
        missing += "docs/jsonl.md lacks `" + name + "` of " + word + "\n";
      if (sql_types_of(field).count(columns[name]) == 0)
        missing += "docs/jsonl.sql has " + name + " of " + word + " as \"" + columns[name] + "\"\n";
    };
    cutrace::with_fields(kind, [&](const auto&... field) { (look(field), ...); });
  }
  if (of_kind.size() < 15 || columns.size() < 100) missing += "the tables of docs/jsonl.md or .sql were not found\n";
  if (!missing.empty()) throw std::runtime_error(missing);
}

files fields(const context& c) {
  check_documents(c.source);
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
