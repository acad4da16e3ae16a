// SPDX-License-Identifier: Apache-2.0
// All of a file, whatever it says of its size: those of /proc say 0.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace cutrace_tool {

/// Empty where it cannot be read.
inline std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace cutrace_tool
