// SPDX-License-Identifier: Apache-2.0
// Durations, sizes and rates for people: 12.3 us, 3.8 MiB, 12.9 GB/s. As in the ASCII report, sizes count in powers of
// 1024, bandwidth in powers of 1000, as vendors state it.
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/detail/text_format.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

inline void append_duration(std::string& out, std::int64_t ns) {
  const double n = static_cast<double>(ns);
  const double size = n < 0 ? -n : n;
  if (size < 1e3) {
    append_format(out, "{} ns", ns);
  } else if (size < 1e6) {
    append_format(out, "{:.1f} us", n / 1e3);
  } else if (size < 1e9) {
    append_format(out, "{:.2f} ms", n / 1e6);
  } else {
    append_format(out, "{:.3f} s", n / 1e9);
  }
}

inline void append_bytes(std::string& out, std::uint64_t bytes) {
  const double n = static_cast<double>(bytes);
  if (bytes < 1024) {
    append_format(out, "{} B", bytes);
  } else if (bytes < std::uint64_t{1} << 20) {
    append_format(out, "{:.1f} KiB", n / 1024);
  } else if (bytes < std::uint64_t{1} << 30) {
    append_format(out, "{:.1f} MiB", n / (1 << 20));
  } else {
    append_format(out, "{:.2f} GiB", n / (1 << 30));
  }
}

/// bytes / ns is GB/s. Nothing where there is no duration.
inline void append_bandwidth(std::string& out, std::uint64_t bytes, std::int64_t ns) {
  if (ns <= 0 || bytes == 0) return;
  const double rate = static_cast<double>(bytes) / static_cast<double>(ns);
  if (rate >= 1) {
    append_format(out, ", {:.1f} GB/s", rate);
  } else {
    append_format(out, ", {:.1f} MB/s", rate * 1e3);
  }
}

}  // namespace detail
CUTRACE_END_NAMESPACE
