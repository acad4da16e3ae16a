// SPDX-License-Identifier: Apache-2.0
// One session that asks for all sinks by name. Returns how many of them wrote no file, and removes the files.
#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <string>

namespace {

/// Removes the file. False where there is none, or nothing about the stage in it.
bool names_stage(const std::string& path) {
  std::string text;
  if (std::FILE* f = std::fopen(path.c_str(), "rb")) {
    char piece[4096];
    for (std::size_t n; (n = std::fread(piece, 1, sizeof(piece), f)) > 0;) text.append(piece, n);
    std::fclose(f);
    std::remove(path.c_str());
  }
  return text.find("in the archive") != std::string::npos;
}

}  // namespace

int trace_with_every_sink(const char* folder) {
  const char* const names[] = {"ascii", "calls", "chrome", "html", "jsonl"};
  std::string sinks;
  for (const char* name : names) {
    if (!sinks.empty()) sinks += ',';
    sinks += std::string(name) + ':' + folder + '/' + name;
  }
  cutrace::session_options options;
  options.sinks = sinks.c_str();
  options.backend = "none";
  cutrace::session trace(options);
  { CUTRACE_STAGE("in the archive"); }
  trace.stop();
  int missing = 0;
  for (const char* name : names) {
    if (names_stage(std::string(folder) + '/' + name)) continue;
    std::printf("no file of %s\n", name);
    ++missing;
  }
  std::remove(folder);
  return missing;
}
