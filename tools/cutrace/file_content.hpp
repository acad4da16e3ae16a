// SPDX-License-Identifier: Apache-2.0
// All of a file, whatever it says of its size: those of /proc say 0.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace cutrace_tool {

/// Empty where it cannot be read; where that fails on the way, as for a process of /proc that ends meanwhile, what was
/// read. Never throws for it: a stream buffer read by itself would.
inline std::string content_of(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

}  // namespace cutrace_tool
