// SPDX-License-Identifier: Apache-2.0
// What the command `cutrace` prints: its help, its completion scripts, and reports on traces of known events.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "golden.hpp"
#include "support/child_process.hpp"
#include "support/temporary_folder.hpp"

namespace golden {

namespace {

/// A folder with traces to read, in which the command runs: it sees no other path than the names of its files.
class workplace {
 public:
  explicit workplace(const context& c) : command_(c.command) {}

  void trace(const std::string& name, const std::string& set) {
    std::ofstream(folder_.file(name), std::ios::binary) << written_by("jsonl", set);
  }
  /// Standard output of the command, which must succeed. Standard error goes to `complaints`, or must be empty.
  std::string run(const std::vector<std::string>& words, std::string* complaints = nullptr) const {
    std::vector<std::string> all{command_};
    all.insert(all.end(), words.begin(), words.end());
    const test_support::finished_process p = test_support::run_process(all, folder_.path());
    if (p.exit_status != 0 || (complaints == nullptr && !p.errors.empty()))
      throw std::runtime_error("cutrace " + (words.empty() ? std::string() : words[0]) + " ended with status " +
                               std::to_string(p.exit_status) + " and says: " + p.errors);
    if (complaints != nullptr) *complaints = without_version(p.errors);
    return without_version(p.output);
  }
  std::string file(const std::string& name) const { return without_version(content_of(folder_.file(name))); }
  /// Files of a folder that the command made, one after the other, each behind its name.
  std::string folder(const std::string& name) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.file(name)))
      all[entry.path().filename().string()] = content_of(entry.path().string());
    std::string text;
    for (const auto& [file_name, content] : all) text += "== " + file_name + "\n" + content;
    return without_version(text);
  }

 private:
  std::string command_;
  temporary_folder folder_;
};

/// The first word of each line under "Subcommands:".
std::vector<std::string> subcommands(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream in(help.substr(std::min(help.find("\nSubcommands:\n"), help.size())));
  for (std::string line; std::getline(in, line);) {
    if (line.size() > 2 && line.compare(0, 2, "  ") == 0 && line[2] != ' ')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

}  // namespace

files help(const context& c) {
  const workplace w(c);
  const std::string top = w.run({"--help"});
  const std::vector<std::string> names = subcommands(top);
  if (names.size() < 2) throw std::runtime_error("cutrace --help names no commands");
  std::string text = "== cutrace --version\n" + w.run({"--version"}) + "== cutrace --help\n" + top;
  for (const std::string& name : names) text += "== cutrace " + name + " --help\n" + w.run({name, "--help"});
  return {{"help.txt", text}};
}

files completion(const context& c) {
  const workplace w(c);
  files all;
  for (const char* shell : {"bash", "zsh", "fish"})
    all[std::string("completion_") + shell + ".txt"] = w.run({"completion", shell});
  return all;
}

files report(const context& c) {
  workplace w(c);
  files all;
  for (const std::string name : {"sample", "random"}) {
    const std::string trace = name + ".jsonl";
    w.trace(trace, name == "sample" ? "marked sample" : "random 1");
    all["report_" + name + ".txt"] = w.run({"report", trace});
    all["report_" + name + ".json"] = w.run({"report", trace, "--json"});
  }
  all["report_width_80.txt"] = w.run({"report", "sample.jsonl", "--width", "80", "--top", "2"});
  all["report_chosen.txt"] = w.run({"report", "random.jsonl", "--stage", "prefill", "--from", "100us", "--top", "3"});
  if (!w.run({"report", "sample.jsonl", "--csv", "tables", "--html", "report.html"}).empty())
    throw std::runtime_error("cutrace report prints text beside its files");
  all["report_csv.txt"] = w.folder("tables");
  all["report.html"] = without_programs(w.file("report.html"));
  return all;
}

files diff(const context& c) {
  workplace w(c);
  w.trace("before.jsonl", "random 1");
  w.trace("after.jsonl", "random 2");
  files all;
  std::string complaints;
  all["diff.txt"] = w.run({"diff", "before.jsonl", "after.jsonl"}, &complaints);
  all["diff.json"] = w.run({"diff", "before.jsonl", "after.jsonl", "--json"}, &complaints);
  all["diff_complaints.txt"] = complaints;
  return all;
}

}  // namespace golden
