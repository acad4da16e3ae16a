// SPDX-License-Identifier: Apache-2.0
#include "cutrace/inject_library.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "cutrace/exit_status.hpp"

namespace cutrace_tool {

namespace {

constexpr const char* file_name = "libcutrace_inject.so";

std::vector<std::filesystem::path> candidates() {
  std::error_code unknown;
  const std::filesystem::path bin = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  std::vector<std::filesystem::path> all{bin / file_name, bin / CUTRACE_LIBRARIES_FROM_BIN / file_name,
                                         bin / "../lib" / file_name};
  if (*CUTRACE_MULTIARCH != '\0') all.push_back(bin / "../lib" / CUTRACE_MULTIARCH / file_name);
  return all;
}

}  // namespace

std::string find_inject_library() {
  std::error_code none;
  const char* named = std::getenv("CUTRACE_INJECT_LIBRARY");
  if (named != nullptr && *named != '\0') {
    if (::access(named, R_OK) == 0) return std::filesystem::canonical(named, none).string();
    throw usage_error("CUTRACE_INJECT_LIBRARY=\"" + std::string(named) + "\" cannot be read");
  }
  std::string looked;
  for (const std::filesystem::path& one : candidates()) {
    if (::access(one.c_str(), R_OK) == 0) return std::filesystem::canonical(one, none).string();
    const std::string path = one.lexically_normal().string();
    if (looked.find(path) == std::string::npos) looked += "\n  " + path;
  }
  throw usage_error(
      std::string(file_name) + " is missing; looked for:" + looked +
      "\nIt is built where CUDA headers with CUPTI are found; CUTRACE_INJECT_LIBRARY names it elsewhere.");
}

}  // namespace cutrace_tool
