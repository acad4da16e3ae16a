// SPDX-License-Identifier: Apache-2.0
// All of a file, whatever it says of its size: those of /proc say 0.
#pragma once

#include <cutrace/config.hpp>
#include <fstream>
#include <iterator>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// Empty where it cannot be read.
inline std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
