// SPDX-License-Identifier: Apache-2.0
// All of a file, whatever it says of its size: those of /proc say 0.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace cutrace_tool {

/// Empty where the file cannot be read. Where reading fails on the way, as for a process of /proc that ends meanwhile:
/// what was read so far. Never throws for that, as a stream buffer that is read directly would.
inline std::string content_of(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

}  // namespace cutrace_tool
