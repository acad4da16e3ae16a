// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cutrace/base/clocks.hpp>
#include <cutrace/collect/clock_map.hpp>
#include <random>
#include <vector>

namespace clock_test {

TEST_CASE("the fixed conversion is linear, exact over days, and holds before its base") {
  cutrace::tick_scale s;
  s.use_counter = true;
  s.base_ticks = 1000000000000;
  s.base_ns = 5000000000;
  s.shift = 32;
  s.multiplier = std::uint64_t{1} << 31;  // two ticks a nanosecond
  CHECK(s.to_ns(s.base_ticks) == s.base_ns);
  CHECK(s.to_ns(s.base_ticks + 2000) == s.base_ns + 1000);
  CHECK(s.to_ns(s.base_ticks - 2000) == s.base_ns - 1000);
  const std::uint64_t month_ticks = std::uint64_t{30} * 24 * 3600 * 2000000000;
  CHECK(s.to_ns(s.base_ticks + month_ticks) == s.base_ns + month_ticks / 2);
}

TEST_CASE("without a counter ticks are nanoseconds of CLOCK_MONOTONIC") {
  const cutrace::tick_scale s = cutrace::detail::calibrate(false);
  CHECK(s.to_ns(123456789) == 123456789);
  CHECK_FALSE(s.use_counter);
}

TEST_CASE("calibration lands in the frame of CLOCK_MONOTONIC") {
  if (!cutrace::detail::counter_is_invariant()) {
    MESSAGE("no invariant counter here: nothing to calibrate");
    return;
  }
  const cutrace::tick_scale s = cutrace::detail::calibrate(true);
  const std::uint64_t before = cutrace::clock::monotonic_ns();
  const std::uint64_t raw = s.now_ns();
  const std::uint64_t after = cutrace::clock::monotonic_ns();
  // No time is asserted, only that the read lies where it must, within 0.1 % of what has passed since calibration.
  const std::uint64_t slack = 2000 + (after - s.base_ns) / 1000;
  CHECK(raw + slack >= before);
  CHECK(raw <= after + slack);
}

TEST_CASE("corrections pull a frame that runs wrong back to CLOCK_MONOTONIC, for old times too") {
  if (!cutrace::detail::counter_is_invariant()) return;
  cutrace::tick_scale wrong = cutrace::detail::calibrate(true);
  wrong.multiplier += wrong.multiplier / 10000;  // 100 parts per million too fast
  cutrace::detail::clock_correction c;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> moments;  // raw and true, between the measurements
  for (int i = 0; i < 20; ++i) {
    c.sample(wrong);
    usleep(2000);
    const cutrace::detail::clock_sample s = cutrace::detail::sample_clocks();
    moments.emplace_back(wrong.to_ns(s.ticks), s.monotonic_ns);
    usleep(2000);
  }
  c.sample(wrong);
  for (const auto& m : moments) {
    const std::int64_t miss = static_cast<std::int64_t>(c.apply(m.first) - m.second);
    CHECK(std::abs(miss) < 2000);  // uncorrected it grows by 100 ns a millisecond, to 8,000 ns and more
  }
  CHECK(c.error_ns() > 0);
}

TEST_CASE("an offset is that of the line between its measurements, in whatever order times ask for it") {
  using cutrace::detail::clock_offset;
  std::mt19937_64 random(17);
  clock_offset line;
  std::vector<clock_offset::point> points;
  // Keeps no results. The times below come near the same points again and again, so `line` also answers from the
  // results that it keeps, and at both ends of the times that each is valid for.
  const auto expected = [&points](std::uint64_t raw) -> std::int64_t {
    std::size_t i = 1;
    while (i + 1 < points.size() && raw >= points[i].raw_ns) ++i;
    const clock_offset::point &a = points[i - 1], &b = points[i];
    if (raw < a.raw_ns) return a.offset_ns;
    return a.offset_ns + (b.offset_ns - a.offset_ns) * static_cast<std::int64_t>(raw - a.raw_ns) /
                             static_cast<std::int64_t>(b.raw_ns - a.raw_ns);
  };
  CHECK(line.at(5) == 0);
  std::uint64_t raw = 1000000000;
  for (int n = 0; n < 40; ++n) {
    raw += 1 + random() % 3000000;
    const std::int64_t jump = n % 5 == 0 ? 0 : static_cast<std::int64_t>(random() % 4001) - 2000;
    points.push_back({raw, (points.empty() ? 0 : points.back().offset_ns) + jump});
    line.add(points.back());
    if (n == 0) {
      CHECK(line.at(raw + 77) == points[0].offset_ns);
      continue;
    }
    std::uint64_t wrong = 0;
    for (int i = 0; i < 20000; ++i) {
      const std::uint64_t around = i % 3 == 0 ? raw : points[random() % points.size()].raw_ns;
      const std::uint64_t at = around + random() % (i % 2 == 0 ? 20000 : 4000000) - 10000;
      wrong += line.at(at) != expected(at);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("three clocks of one moment are read together") {
  const cutrace::clock_anchor a = cutrace::detail::read_anchor(0);
  CHECK(a.realtime_ns > 1600000000000000000u);
  CHECK(a.boottime_ns + 1000000000 >= a.monotonic_ns);
  CHECK(a.trace_ns == static_cast<std::int64_t>(a.monotonic_ns));
}

}  // namespace clock_test
