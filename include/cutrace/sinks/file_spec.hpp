// SPDX-License-Identifier: Apache-2.0
// Limits of a sink's file as its specification says them: "rotate=64M", "rotate=10m", "rotate=64M/10m", "keep=5",
// "max=1G".
#pragma once

#include <charconv>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/output/trace_file.hpp>
#include <cutrace/sinks/sink_spec.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// A whole number and one of `units`, each a letter with its factor. @returns 0 where it is none, or too large
struct unit {
  char letter;
  std::uint64_t factor;
};
template <std::size_t N>
inline std::uint64_t number_with_unit(std::string_view text, const unit (&units)[N]) noexcept {
  std::uint64_t n = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result r = std::from_chars(text.data(), end, n);
  if (r.ec != std::errc() || end - r.ptr != 1) return 0;
  for (const unit& u : units) {
    if (u.letter == *r.ptr) return n > (std::uint64_t{1} << 62) / u.factor ? 0 : n * u.factor;
  }
  return 0;
}
inline std::uint64_t size_with_unit(std::string_view text) noexcept {
  constexpr unit sizes[] = {{'K', 1u << 10}, {'M', 1u << 20}, {'G', 1u << 30}};
  return number_with_unit(text, sizes);
}
inline std::uint64_t time_with_unit(std::string_view text) noexcept {
  constexpr unit times[] = {{'s', 1000000000u}, {'m', 60000000000u}, {'h', 3600000000000u}};
  return number_with_unit(text, times);
}

/// Takes "rotate", "keep" and "max". @throws config_error
CUTRACE_NOINLINE inline file_limits take_file_limits(sink_spec& spec) {
  file_limits limits;
  const std::string rotate = spec.take_text("rotate");
  std::string_view rest = rotate;
  for (bool more = !rest.empty(); more;) {
    const std::string_view one = rest.substr(0, rest.find('/'));
    const std::uint64_t bytes = size_with_unit(one), ns = time_with_unit(one);
    if (bytes != 0) limits.rotate_bytes = bytes;
    if (ns != 0) limits.rotate_ns = ns;
    if (bytes == 0 && ns == 0)
      spec.fail("rotate=" + rotate +
                " is neither a size (64M; K, M or G) nor a time (10m; s, m or h), nor both (64M/10m)");
    more = one.size() < rest.size();
    if (more) rest.remove_prefix(one.size() + 1);
  }
  limits.keep = static_cast<std::uint32_t>(spec.take_number("keep", 0, 1000000, 1));
  if (limits.keep != 0 && !limits.parts()) spec.fail("keep= needs rotate=, whose newest parts it keeps");
  const std::string most = spec.take_text("max");
  limits.max_bytes = size_with_unit(most);
  if (!most.empty() && limits.max_bytes == 0) spec.fail("max=" + most + " is not a size (1G; K, M or G)");
  return limits;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
