// SPDX-License-Identifier: Apache-2.0
// A JSONL trace read back with a parser that is not ours.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "temporary_folder.hpp"

namespace test_support {

struct jsonl_trace {
  nlohmann::json header, footer;  ///< null where missing
  std::vector<nlohmann::json> events;
  std::size_t headers = 0, footers = 0;
  bool torn = false;  ///< the last line has no end

  explicit jsonl_trace(const std::string& path) {
    std::istringstream in(content_of(path));
    std::string line;
    while (std::getline(in, line)) {
      torn = in.eof();
      if (torn) break;
      const nlohmann::json e = nlohmann::json::parse(line);
      const std::string type = e.at("type");
      if (type == "header") {
        header = e;
        ++headers;
      } else if (type == "footer") {
        footer = e;
        ++footers;
      } else {
        events.push_back(e);
      }
    }
  }

  /// One header, one footer, nothing lost, and as many events as the footer says.
  bool complete() const {
    if (headers != 1 || footers != 1 || torn) return false;
    return footer.at("produced") == footer.at("delivered") && footer.at("lost_total") == 0 &&
           footer.at("lines") == events.size() + 1;
  }

  std::size_t count(const std::string& type, const std::string& name) const {
    std::size_t n = 0;
    for (const nlohmann::json& e : events) n += e.at("type") == type && e.value("name", "") == name;
    return n;
  }

  std::vector<nlohmann::json> of(const std::string& type) const {
    std::vector<nlohmann::json> some;
    for (const nlohmann::json& e : events)
      if (e.at("type") == type) some.push_back(e);
    return some;
  }

  /// How often each name of a type occurs.
  std::map<std::string, std::size_t> names(const std::string& type) const {
    std::map<std::string, std::size_t> n;
    for (const nlohmann::json& e : of(type)) ++n[e.value("name", "")];
    return n;
  }
};

inline std::vector<std::string> files_with(const std::string& folder, const std::string& ending) {
  std::vector<std::string> found;
  for (const auto& f : std::filesystem::directory_iterator(folder)) {
    const std::string name = f.path().filename().string();
    if (name.size() >= ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
      found.push_back(f.path().string());
  }
  return found;
}

}  // namespace test_support
