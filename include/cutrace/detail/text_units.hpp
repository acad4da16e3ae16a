// SPDX-License-Identifier: Apache-2.0
// Durations, sizes and rates for people, decimal units: 12.3 us, 4.0 MB, 12.9 GB/s.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cutrace/config.hpp>
#include <iterator>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

inline void append_duration(std::string& out, std::int64_t ns) {
  const double n = static_cast<double>(ns);
  const double size = n < 0 ? -n : n;
  auto to = std::back_inserter(out);
  if (size < 1e3) {
    fmt::format_to(to, "{} ns", ns);
  } else if (size < 1e6) {
    fmt::format_to(to, "{:.1f} us", n / 1e3);
  } else if (size < 1e9) {
    fmt::format_to(to, "{:.2f} ms", n / 1e6);
  } else {
    fmt::format_to(to, "{:.3f} s", n / 1e9);
  }
}

inline void append_bytes(std::string& out, std::uint64_t bytes) {
  const double n = static_cast<double>(bytes);
  auto to = std::back_inserter(out);
  if (bytes < 1000) {
    fmt::format_to(to, "{} B", bytes);
  } else if (n < 1e6) {
    fmt::format_to(to, "{:.1f} kB", n / 1e3);
  } else if (n < 1e9) {
    fmt::format_to(to, "{:.1f} MB", n / 1e6);
  } else {
    fmt::format_to(to, "{:.2f} GB", n / 1e9);
  }
}

/// bytes / ns is GB/s. Nothing where there is no duration.
inline void append_bandwidth(std::string& out, std::uint64_t bytes, std::int64_t ns) {
  if (ns <= 0 || bytes == 0) return;
  const double rate = static_cast<double>(bytes) / static_cast<double>(ns);
  auto to = std::back_inserter(out);
  if (rate >= 1) {
    fmt::format_to(to, ", {:.1f} GB/s", rate);
  } else {
    fmt::format_to(to, ", {:.1f} MB/s", rate * 1e3);
  }
}

}  // namespace detail
CUTRACE_END_NAMESPACE
