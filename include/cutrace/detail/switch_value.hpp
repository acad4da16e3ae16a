// SPDX-License-Identifier: Apache-2.0
// What the value of a switch in the environment says.
#pragma once

#include <strings.h>

#include <cutrace/config.hpp>
#include <optional>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// Nothing: neither a yes nor a no.
inline std::optional<bool> switch_value(const char* v) noexcept {
  for (const char* yes : {"1", "on", "true", "yes"})
    if (strcasecmp(v, yes) == 0) return true;
  for (const char* no : {"0", "off", "false", "no"})
    if (strcasecmp(v, no) == 0) return false;
  return std::nullopt;
}

}  // namespace detail
CUTRACE_END_NAMESPACE
