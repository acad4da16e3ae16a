// SPDX-License-Identifier: Apache-2.0
// Words in a message.
#pragma once

#include <cutrace/config.hpp>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// "a, b, c"
inline std::string word_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : ", ") + w;
  return text;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
