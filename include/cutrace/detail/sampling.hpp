// SPDX-License-Identifier: Apache-2.0
// Recording in windows: when a window is open by the clock, and how a choice of windows is written ("200ms/20s").
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cutrace/config.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

struct sampling {
  using clock = std::chrono::steady_clock;
  static constexpr const char* accepted =
      "WINDOW/PERIOD as in \"200ms/20s\" (ms or s; windows from 10ms, the period longer than the window and at most "
      "86400s), or \"requests\" for the windows that the program opens";

  bool on = false;
  std::uint32_t window_ms = 0, period_ms = 0;  ///< 0: only windows that the program opens

  /// The first window by the clock begins with the session, so that a short program leaves a trace, too.
  bool open(clock::duration since_start) const noexcept {
    return !on || (period_ms != 0 && phase(since_start) < std::chrono::milliseconds(window_ms));
  }

  /// Time until `open` changes its answer. Not for windows that the program opens.
  clock::duration until_edge(clock::duration since_start) const noexcept {
    const clock::duration at = phase(since_start), end = std::chrono::milliseconds(window_ms);
    return at < end ? end - at : std::chrono::milliseconds(period_ms) - at;
  }

  /// False for what cannot be used.
  static bool parse(const std::string& text, sampling& s) {
    if (text == "requests") {
      s = {true, 0, 0};
      return true;
    }
    const std::size_t slash = text.find('/');
    std::uint64_t window = 0, period = 0;
    if (slash == std::string::npos || !milliseconds(text.substr(0, slash), window) ||
        !milliseconds(text.substr(slash + 1), period) || window < 10 || period <= window || period > 86400000)
      return false;
    s = {true, static_cast<std::uint32_t>(window), static_cast<std::uint32_t>(period)};
    return true;
  }

 private:
  clock::duration phase(clock::duration since_start) const noexcept {
    return since_start % clock::duration(std::chrono::milliseconds(period_ms));
  }

  static bool milliseconds(const std::string& text, std::uint64_t& ms) {
    if (text.empty() || text[0] < '0' || text[0] > '9') return false;
    char* end = nullptr;
    ms = std::strtoull(text.c_str(), &end, 10);
    const std::string unit = end;
    if (ms > 86400000) return false;
    if (unit == "s") ms *= 1000;
    return unit == "s" || unit == "ms";
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
