// SPDX-License-Identifier: Apache-2.0
// Writes golden files, or compares them with what the build makes now.
//
//   cutrace_golden write DATA COMMAND SOURCE          all of them, into the folder DATA
//   cutrace_golden check DATA COMMAND SOURCE WHAT     those of one producer
//   cutrace_golden complete DATA WHAT...              DATA holds the files of all producers, which are WHAT..., no
//   others
//
// Exit code: 0 equal or written; 1 not.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cutrace/cutrace.hpp>
#include <exception>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "difference.hpp"
#include "golden.hpp"
#include "support/sample_events.hpp"
#include "support/temporary_folder.hpp"

namespace golden {

std::string without_version(std::string_view text) {
  constexpr std::string_view version = CUTRACE_VERSION_STRING;
  const auto in_number = [text](std::size_t at) {
    return at < text.size() && (std::isdigit(static_cast<unsigned char>(text[at])) != 0 || text[at] == '.');
  };
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(version); at != text.npos; at = text.find(version, at + 1)) {
    if ((at > 0 && in_number(at - 1)) || in_number(at + version.size())) continue;
    out.append(text, done, at - done);
    out += "VERSION";
    done = at + version.size();
  }
  return out.append(text, done, text.npos);
}

std::string without_programs(std::string page) {
  constexpr std::string_view nonce = "nonce-";
  const std::size_t first = page.find(nonce);
  if (first != page.npos) {
    const std::size_t begin = first + nonce.size();
    const std::string fresh = page.substr(begin, page.find('\'', begin) - begin);
    for (std::size_t at = 0; !fresh.empty() && (at = page.find(fresh, at)) != page.npos;)
      page.replace(at, fresh.size(), "NONCE");
  }
  std::string out;
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t open = std::min(page.find("<script", at), page.find("<style", at));
    if (open == page.npos) return out.append(page, at, page.npos);
    const std::size_t content = page.find('>', open) + 1;
    const std::size_t end = page.find(page.compare(open, 6, "<style") == 0 ? "</style" : "</script", content);
    if (content == 0 || end == page.npos) throw std::runtime_error("a script or style of a page has no end");
    const bool data = page.substr(open, content - open).find("type=") != page.npos;
    out.append(page, at, (data ? end : content) - at);
    at = end;
    out.append(page, at, 2);
    at += 2;
  }
  return out;
}

std::string hash_of(std::string_view bytes) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

namespace {

struct producer {
  const char* what;
  files (*make)(const context&);
};
constexpr producer producers[] = {
    {"ascii", ascii},   {"calls", calls},       {"chrome", chrome},         {"completion", completion},
    {"diff", diff},     {"fields", fields},     {"hashes", hashes},         {"help", help},
    {"html", html},     {"jsonl", jsonl},       {"names", names},           {"options", options},
    {"report", report}, {"perfetto", perfetto}, {"prometheus", prometheus}, {"variables", variables},
};

int ended(bool equal) {
  if (!equal) std::printf("FAILED; where the change is meant, scripts/goldens writes the golden files again\n");
  return equal ? 0 : 1;
}

int check(const std::string& data, const context& c, const std::string& what) {
  const auto p =
      std::find_if(std::begin(producers), std::end(producers), [&](const producer& q) { return q.what == what; });
  if (p == std::end(producers)) throw std::runtime_error("there are no golden files of \"" + what + "\"");
  bool equal = true;
  const files all = p->make(c);
  for (const auto& [name, now] : all) {
    const std::string path = data + "/" + name;
    const std::string wanted = std::filesystem::exists(path) ? content_of(path) : std::string();
    if (wanted == now) continue;
    std::fputs(difference(name, wanted, now).c_str(), stdout);
    equal = false;
  }
  std::printf("%zu files of %s\n", all.size(), what.c_str());
  return ended(equal);
}

/// The list of files is a golden file itself, so that a file too many or too few is seen without making them all.
int complete(const std::string& data, const std::vector<std::string>& tested) {
  bool equal = true;
  std::set<std::string> known, found, listed;
  for (const producer& p : producers) known.insert(p.what);
  if (known != std::set<std::string>(tested.begin(), tested.end())) {
    std::printf("the producers of golden files and the tests that CMakeLists.txt names are not the same\n");
    equal = false;
  }
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data)) {
    found.insert(entry.path().filename().string());
    bytes += entry.file_size();
  }
  for (const std::string& name : lines_of(content_of(data + "/files.txt"))) listed.insert(name);
  for (const std::string& name : listed)
    if (found.count(name) == 0) std::printf("missing: %s\n", name.c_str());
  for (const std::string& name : found)
    if (listed.count(name) == 0) std::printf("not made by any producer: %s\n", name.c_str());
  constexpr std::uintmax_t most_bytes = 600000;
  if (bytes > most_bytes) std::printf("%ju bytes are more than the %ju of the budget\n", bytes, most_bytes);
  std::printf("%zu files, %ju bytes\n", found.size(), bytes);
  return ended(equal && listed == found && bytes <= most_bytes);
}

int write(const std::string& data, const context& c) {
  std::filesystem::create_directories(data);
  files all;
  for (const producer& p : producers) all.merge(p.make(c));
  all["files.txt"];
  std::string list;
  for (const auto& [name, content] : all) list += name + "\n";
  all["files.txt"] = list;
  for (const auto& [name, content] : all) {
    std::ofstream out(data + "/" + name, std::ios::binary);
    out << content;
    if (!out.flush()) throw std::runtime_error("cannot write " + data + "/" + name);
  }
  std::printf("%zu golden files in %s\n", all.size(), data.c_str());
  return 0;
}

/// Fixes the variables that change what programs print, for this process and the commands that it runs.
void fix_environment() {
  std::vector<std::string> drop{"COLUMNS", "LINES", "LANG", "LANGUAGE", "NO_COLOR", "CUDA_VISIBLE_DEVICES"};
  for (char** e = environ; *e != nullptr; ++e)
    if (std::strncmp(*e, "CUTRACE", 7) == 0) drop.emplace_back(*e, std::strcspn(*e, "="));
  for (const std::string& name : drop) ::unsetenv(name.c_str());
  ::setenv("LC_ALL", "C", 1);
  ::setenv("TZ", "UTC", 1);
}

int run(const std::vector<std::string>& words) {
  const std::string mode = !words.empty() ? words[0] : std::string();
  if (mode == "write" && words.size() == 4) return write(words[1], {words[2], words[3]});
  if (mode == "check" && words.size() == 5) return check(words[1], {words[2], words[3]}, words[4]);
  if (mode == "complete" && words.size() > 2) return complete(words[1], {words.begin() + 2, words.end()});
  std::fprintf(stderr, "usage: write DATA COMMAND SOURCE | check DATA COMMAND SOURCE WHAT | complete DATA WHAT...\n");
  return 1;
}

}  // namespace
}  // namespace golden

int main(int argc, char** argv) {
  golden::fix_environment();
  // The sample events have a fixed pid. A sink takes that process for its own if this process has the same pid: fork.
  if (::getpid() == static_cast<pid_t>(sample::pid)) {
    const pid_t child = ::fork();
    int status = 0;
    if (child != 0) return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  }
  int status = 1;
  try {
    status = golden::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& e) {
    std::printf("FAILED: %s\n", e.what());
  }
  return status;
}
