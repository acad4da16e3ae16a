// SPDX-License-Identifier: Apache-2.0
// Finds the library that uprobes are to be put on before a program is started: by name or path, else the driver's.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver_files.hpp"

namespace cutrace_tool {

/// What this process's environment says to the loader.
inline std::map<std::string, std::string> loader_environment() {
  const char* const folders = std::getenv("LD_LIBRARY_PATH");
  return folders != nullptr ? std::map<std::string, std::string>{{"LD_LIBRARY_PATH", folders}}
                            : std::map<std::string, std::string>{};
}

/// The path without links and dots; as it is where there is no such file.
inline std::string absolute(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path whole = std::filesystem::canonical(path, failed);
  return failed ? path : whole.string();
}

/// `wanted` empty: the libcuda that --method ebpf would find first. @throws std::runtime_error
inline cutrace_ebpf::opened_file library_or_driver(const std::string& wanted) {
  if (!wanted.empty()) return cutrace_ebpf::find_library(wanted, "", loader_environment());
  std::vector<cutrace_ebpf::opened_file> all = cutrace_ebpf::likely_drivers("", loader_environment());
  if (all.empty())
    throw std::runtime_error("no libcuda was found where the loader would look; --library names a library");
  return std::move(all.front());
}

/// Names of all functions that have a symbol, sorted, each once. @throws std::runtime_error
inline std::vector<std::string> function_names(const cutrace_ebpf::opened_file& file) {
  std::vector<std::string> names;
  cutrace_ebpf::elf_file(file, true).all_functions([&](const char* name, std::uint64_t) {
    if (std::strchr(name, '.') == nullptr) names.emplace_back(name);  // parts and copies that a compiler made
  });
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace cutrace_tool
