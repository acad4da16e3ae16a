// SPDX-License-Identifier: Apache-2.0
// Numbers as a person reads them in a terminal: three significant digits with a unit, thousands separated. Pure
// functions.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

/// A number with its unit. Not a std::string: a line of the report holds up to six of them, and the compiler would have
/// to write out how each is destroyed on each way out.
class figure {
 public:
  figure() noexcept = default;
  explicit figure(std::string_view s) noexcept { add(s); }

  /// What does not fit, is dropped.
  CUTRACE_NOINLINE figure& add(std::string_view s) noexcept {
    for (const char c : s)
      if (size_ < sizeof(text_)) text_[size_++] = c;
    return *this;
  }
  std::string_view view() const noexcept { return {text_, size_}; }
  operator std::string_view() const noexcept { return view(); }
  friend bool operator==(const figure& a, std::string_view b) noexcept { return a.view() == b; }

 private:
  char text_[39];
  unsigned char size_ = 0;
};

/// `decimals` digits behind the point, never in exponent form.
CUTRACE_NOINLINE inline figure fixed(double v, int decimals) {
  return figure(fmt::vformat("{:.{}f}", fmt::make_format_args(v, decimals)));
}

/// Three significant digits, never in exponent form: 1.23, 12.3, 123.
CUTRACE_NOINLINE inline figure three_digits(double v) { return fixed(v, v < 9.995 ? 2 : v < 99.95 ? 1 : 0); }

/// Digits of `n`, from the right, `separator` after each third one; 0: none.
CUTRACE_NOINLINE inline figure digits(std::uint64_t n, char separator = '\0') noexcept {
  char text[32];
  char* at = text + sizeof(text);
  unsigned written = 0;
  do {
    if (separator != '\0' && written != 0 && written % 3 == 0) *--at = separator;
    *--at = static_cast<char>('0' + n % 10);
    ++written;
  } while ((n /= 10) != 0);
  return figure(std::string_view(at, static_cast<std::size_t>(text + sizeof(text) - at)));
}

inline figure signed_digits(std::int64_t n) noexcept {
  const std::uint64_t bits = static_cast<std::uint64_t>(n);
  return n < 0 ? figure("-").add(digits(0 - bits)) : digits(bits);
}

/// 1234567 -> "1,234,567".
inline figure count(std::uint64_t n) noexcept { return digits(n, ','); }

/// "1 call", "12 calls".
CUTRACE_NOINLINE inline figure counted(std::uint64_t n, std::string_view what) noexcept {
  return count(n).add(" ").add(what).add(n == 1 ? "" : "s");
}

/// "0 ns", "999 ns", "1.23 us", "45.6 ms", "2.50 s", "16.7 min", "2.50 h", "13,344 d".
CUTRACE_NOINLINE inline figure duration(double ns) {
  struct unit {
    double below_ns;
    double ns;
    const char* name;
  };
  constexpr unit units[] = {{999.5e3, 1e3, " us"},          {999.5e6, 1e6, " ms"},
                            {999.5e9, 1e9, " s"},           {99.95 * 60e9, 60e9, " min"},
                            {99.95 * 3600e9, 3600e9, " h"}, {999.5 * 86400e9, 86400e9, " d"}};
  if (ns < 0) return figure("-").add(duration(-ns));
  if (ns < 999.5) return fixed(ns, 0).add(" ns");
  for (const unit& u : units)
    if (ns < u.below_ns) return three_digits(ns / u.ns).add(u.name);
  return count(static_cast<std::uint64_t>(ns / 86400e9 + 0.5)).add(" d");
}
inline figure duration(std::int64_t ns) { return duration(static_cast<double>(ns)); }
inline figure duration(std::uint64_t ns) { return duration(static_cast<double>(ns)); }

/// Powers of 1024: "512 B", "1.50 KiB", "3.81 MiB", "139 GiB".
CUTRACE_NOINLINE inline figure bytes(std::uint64_t n) {
  double v = static_cast<double>(n);
  if (n < 1024) return digits(n).add(" B");
  constexpr const char* units[] = {" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  std::size_t u = 0;
  for (v /= 1024; v >= 1023.5 && u < 5; v /= 1024) ++u;
  return three_digits(v).add(units[u]);
}

/// Powers of 1000, as vendors state bandwidth: "25.3 GB/s".
CUTRACE_NOINLINE inline figure bandwidth(double bytes_per_s) {
  constexpr const char* units[] = {" B/s", " kB/s", " MB/s", " GB/s", " TB/s"};
  std::size_t u = 0;
  for (; bytes_per_s >= 999.5 && u < 4; bytes_per_s /= 1000) ++u;
  return three_digits(bytes_per_s).add(units[u]);
}

/// Tenths of a percent: 432 -> "43.2 %".
CUTRACE_NOINLINE inline figure share(std::uint64_t permille) {
  return digits(permille / 10).add(".").add(digits(permille % 10)).add(" %");
}
/// `part` of `whole`; "-" where there is no whole. What is not nothing is never printed as nothing.
CUTRACE_NOINLINE inline figure share_of(double part, double whole) {
  if (whole <= 0) return figure("-");
  const double percent = 100.0 * part / whole;
  return percent > 0 && percent < 0.05 ? figure("<0.1 %") : fixed(percent, 1).add(" %");
}

}  // namespace ascii
CUTRACE_END_NAMESPACE
