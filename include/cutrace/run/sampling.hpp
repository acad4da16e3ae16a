// SPDX-License-Identifier: Apache-2.0
// Recording in windows: when a window is open by the clock, and how a choice of windows is written ("200ms/20s"). And
// recording one interval only: from after_ms on, for duration_ms.
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
  static constexpr const char* accepted_time =
      "a time as in \"250ms\", \"10s\" or \"5m\", at most 86400s, and a duration more than 0";

  bool on = false;
  std::uint32_t window_ms = 0, period_ms = 0;  ///< 0: only windows that the program opens
  std::uint32_t after_ms = 0;                  ///< nothing is recorded before
  std::uint32_t duration_ms = 0;               ///< nothing is recorded after after_ms + duration_ms; 0: no end

  /// Whether there may be times that are not recorded.
  bool gated() const noexcept { return on || after_ms != 0 || duration_ms != 0; }

  /// The first window by the clock begins with the session, so that a short program leaves a trace, too. `by_program`:
  /// the program holds a window open.
  bool open(clock::duration since_start, bool by_program = false) const noexcept {
    if (since_start < std::chrono::milliseconds(after_ms) || since_start >= end()) return false;
    return !on || by_program || (period_ms != 0 && phase(since_start) < std::chrono::milliseconds(window_ms));
  }

  /// Time until the clock may change the answer of `open`; the greatest duration where it never will.
  clock::duration until_edge(clock::duration since_start) const noexcept {
    const clock::duration never = clock::duration::max();
    if (since_start >= end()) return never;
    if (since_start < std::chrono::milliseconds(after_ms)) return std::chrono::milliseconds(after_ms) - since_start;
    const clock::duration left = duration_ms != 0 ? end() - since_start : never;
    if (period_ms == 0) return left;
    const clock::duration at = phase(since_start), close = std::chrono::milliseconds(window_ms);
    const clock::duration edge = at < close ? close - at : std::chrono::milliseconds(period_ms) - at;
    return edge < left ? edge : left;
  }

  /// False for what cannot be used.
  static bool parse(const std::string& text, sampling& s) {
    if (text == "requests") {
      s.on = true;
      s.window_ms = s.period_ms = 0;
      return true;
    }
    const std::size_t slash = text.find('/');
    std::uint64_t window = 0, period = 0;
    if (slash == std::string::npos || !milliseconds(text.substr(0, slash), window) ||
        !milliseconds(text.substr(slash + 1), period) || window < 10 || period <= window || period > 86400000)
      return false;
    s.on = true;
    s.window_ms = static_cast<std::uint32_t>(window);
    s.period_ms = static_cast<std::uint32_t>(period);
    return true;
  }

  /// "250ms", "10s", "5m". False for what cannot be used.
  static bool parse_time(const std::string& text, std::uint32_t& ms) {
    std::uint64_t n = 0;
    const bool minutes = text.size() > 1 && text.back() == 'm' && text[text.size() - 2] != 'm';
    if (!milliseconds(minutes ? text.substr(0, text.size() - 1) + "s" : text, n)) return false;
    if (minutes) n *= 60;
    ms = static_cast<std::uint32_t>(n);
    return n <= 86400000;
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

  clock::duration end() const noexcept {
    if (duration_ms == 0) return clock::duration::max();
    return std::chrono::milliseconds(std::uint64_t{after_ms} + duration_ms);
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
