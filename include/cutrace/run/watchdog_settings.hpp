// SPDX-License-Identifier: Apache-2.0
// What CUTRACE_WATCHDOG asks for, see watchdog.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/run/sampling.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

struct watchdog_settings {
  std::uint32_t bound_ms = 0;       ///< 0: off
  std::vector<std::string> except;  ///< see work_watch::bounds

  static constexpr const char* accepted =
      "a time such as 10s or 500ms, at least 100ms, and behind it \",except=NAME\" for each kernel that may take "
      "longer";

  /// "10s,except=persistent_kernel,except=poll*"
  static bool parse(std::string_view text, watchdog_settings& to) {
    watchdog_settings s;
    for (bool first = true;; first = false) {
      const std::size_t comma = text.find(',');
      const std::string_view word = text.substr(0, comma);
      constexpr std::string_view except = "except=";
      if (first) {
        if (!sampling::parse_time(std::string(word).c_str(), s.bound_ms) || s.bound_ms < 100) return false;
      } else if (word.substr(0, except.size()) == except && word.size() > except.size()) {
        s.except.emplace_back(word.substr(except.size()));
      } else {
        return false;
      }
      if (comma == std::string_view::npos) break;
      text.remove_prefix(comma + 1);
    }
    to = std::move(s);
    return true;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
