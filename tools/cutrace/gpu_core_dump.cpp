// SPDX-License-Identifier: Apache-2.0
#include "cutrace/gpu_core_dump.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <cstddef>

namespace cutrace_tool {

std::vector<std::string> gpu_core_dumps(const std::map<std::string, std::string>& environment, std::time_t since) {
  const auto value_of = [&](const char* name) {
    const auto found = environment.find(name);
    return found != environment.end() ? found->second : std::string();
  };
  const std::string wanted = value_of("CUDA_ENABLE_COREDUMP_ON_EXCEPTION");
  if (wanted.empty() || wanted == "0") return {};
  std::string name = value_of("CUDA_COREDUMP_FILE"), pattern;
  if (name.empty()) name = "core_%t_%h_%p.nvcudmp";
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool varies =
        name[i] == '%' && i + 1 < name.size() && std::string("hpt").find(name[i + 1]) != std::string::npos;
    if (varies)
      pattern += '*', ++i;  // host, process, time
    else if (std::string("*?[\\").find(name[i]) != std::string::npos)
      pattern += '\\', pattern += name[i];
    else
      pattern += name[i];
  }
  std::vector<std::string> files;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      struct stat is {};
      if (::stat(found.gl_pathv[i], &is) == 0 && S_ISREG(is.st_mode) && is.st_mtime >= since)
        files.emplace_back(found.gl_pathv[i]);
    }
  ::globfree(&found);
  return files;
}

}  // namespace cutrace_tool
