// SPDX-License-Identifier: Apache-2.0
// Times of a Perfetto trace: clamped to what readers can represent (int64, from 0), and the same bytes as protozero's
// varints.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cutrace/sinks/perfetto/sequence.hpp>
#include <limits>
#include <protozero/varint.hpp>
#include <string>

namespace perfetto_time_test {

namespace {

__extension__ using wide = __int128;
constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t edges[] = {lowest, lowest + 1, -5, -1, 0, 1, 5, highest - 1, highest};

std::string varint(std::uint64_t n) {
  char text[protozero::max_varint_length];
  return std::string(text, static_cast<std::size_t>(protozero::write_varint(text, n)));
}

}  // namespace

TEST_CASE("perfetto times: times beyond a reader's range become the nearest in it") {
  for (const std::int64_t offset : edges) {
    const cutrace::detail::trace_clock clock(static_cast<std::uint64_t>(offset), 0);
    for (const std::int64_t ns : edges) {
      const wide sum = wide{ns} + offset;
      const wide held = sum < 0 ? wide{0} : sum > highest ? wide{highest} : sum;
      CHECK(clock.of(ns) == static_cast<std::uint64_t>(held));
    }
  }
}

TEST_CASE("perfetto times: numbers of any size are varints") {
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint64_t power = std::uint64_t{1} << bit;
    for (const std::uint64_t n : {power - 1, power, power + 1}) {
      char text[16];
      CHECK(std::string(text, cutrace::detail::put_varint(text, n)) == varint(n));
    }
  }
}

}  // namespace perfetto_time_test
