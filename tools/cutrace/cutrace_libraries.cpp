// SPDX-License-Identifier: Apache-2.0
#include "cutrace/cutrace_libraries.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "cutrace/exit_status.hpp"

namespace cutrace_tool {

namespace {

std::vector<std::filesystem::path> candidates(const char* file_name) {
  std::error_code unknown;
  const std::filesystem::path bin = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  std::vector<std::filesystem::path> all{bin / file_name, bin / CUTRACE_LIBRARIES_FROM_BIN / file_name,
                                         bin / "../lib" / file_name};
  if (*CUTRACE_MULTIARCH != '\0') all.push_back(bin / "../lib" / CUTRACE_MULTIARCH / file_name);
  return all;
}

/// `variable`: name of the environment variable that overrides the search; `named`: its value, nullptr where not set.
std::string find_library(const char* file_name, const char* variable, const char* named,
                         const std::string& built_where) {
  std::error_code none;
  if (named != nullptr && *named != '\0') {
    if (::access(named, R_OK) == 0) return std::filesystem::canonical(named, none).string();
    throw usage_error(std::string(variable) + "=\"" + named + "\" cannot be read");
  }
  std::string looked;
  for (const std::filesystem::path& one : candidates(file_name)) {
    if (::access(one.c_str(), R_OK) == 0) return std::filesystem::canonical(one, none).string();
    const std::string path = one.lexically_normal().string();
    if (looked.find(path) == std::string::npos) looked += "\n  " + path;
  }
  throw usage_error(std::string(file_name) + " is missing; looked for:" + looked + "\nIt is built " + built_where +
                    "; " + variable + " names it elsewhere.");
}

}  // namespace

std::string find_inject_library() {
  return find_library("libcutrace_inject.so", "CUTRACE_INJECT_LIBRARY", std::getenv("CUTRACE_INJECT_LIBRARY"),
                      "where CUDA headers with CUPTI are found");
}

std::string find_preload_library() {
  return find_library("libcutrace_preload.so", "CUTRACE_PRELOAD_LIBRARY", std::getenv("CUTRACE_PRELOAD_LIBRARY"),
                      "for x86-64 and 64-bit ARM");
}

std::string find_watch_library() {
  return find_library("libcutrace_watch.so", "CUTRACE_WATCH_LIBRARY", std::getenv("CUTRACE_WATCH_LIBRARY"),
                      "with the command");
}

}  // namespace cutrace_tool
