// SPDX-License-Identifier: Apache-2.0
// Lanes, into which a row of a viewer is split so that no slices of a lane overlap partly: checked against a slow model
// that remembers every slice.
#include <doctest/doctest.h>

#include <cstdint>
#include <cutrace/sinks/common/lane.hpp>
#include <random>
#include <vector>

namespace chrome_lane_test {

namespace {

using cutrace::detail::slice_lane;

struct slice {
  std::int64_t start, end;
};

bool may_share(const slice& earlier, const slice& later, bool nesting) {
  const bool apart = earlier.end <= later.start || later.end <= earlier.start;
  if (apart || !nesting) return apart;
  const bool around = later.start < earlier.start && earlier.end <= later.end;
  const bool equal = later.start == earlier.start && earlier.end == later.end;
  return around || equal;
}

/// Slices of a random run in the order of their ends.
std::vector<slice> random_slices(unsigned seed, int n) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> step(0, 20);
  std::uniform_int_distribution<int> length(0, 100);
  std::vector<slice> all;
  std::int64_t end = 0;
  for (int i = 0; i < n; ++i) {
    end += step(random);
    all.push_back({end - length(random), end});
  }
  return all;
}

}  // namespace

TEST_CASE("lane: what it takes never overlaps partly, what it refuses does") {
  for (const bool nesting : {false, true}) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      slice_lane lane(nesting);
      std::vector<slice> placed;
      for (const slice& s : random_slices(seed, 300)) {
        bool fits = true;
        for (const slice& p : placed) fits = fits && may_share(p, s, nesting);
        REQUIRE(lane.place(s.start, s.end, 0) == fits);
        if (fits) placed.push_back(s);
      }
    }
  }
}

TEST_CASE("lane: after many slices it may refuse more, but never takes what overlaps") {
  for (const bool nesting : {false, true}) {
    slice_lane lane(nesting);
    std::vector<slice> placed;
    std::uint64_t owner = 0;
    for (const slice& s : random_slices(7, 4000)) {
      if (!lane.place(s.start, s.end, ++owner)) continue;
      for (const slice& p : placed) REQUIRE(may_share(p, s, nesting));
      placed.push_back(s);
    }
    CHECK(placed.size() > 600);
  }
}

TEST_CASE("lane: a stage around more calls than are remembered still fits") {
  slice_lane lane(true);
  REQUIRE(lane.place(0, 10, 0));
  for (std::int64_t i = 0; i < 5000; ++i) REQUIRE(lane.place(100 + 10 * i, 105 + 10 * i, 1));
  CHECK(lane.place(50, 60000, 0));
  CHECK(!lane.place(55, 70000, 0));
}

TEST_CASE("lane: latecomers fit where there is room") {
  slice_lane lane(false);
  CHECK(lane.place(100, 200, 0));
  CHECK(lane.place(300, 400, 0));
  CHECK(lane.place(220, 250, 0));
  CHECK(!lane.place(240, 260, 0));
  CHECK(lane.place(0, 100, 0));
}

TEST_CASE("lane: where it is asked for, what comes late does not touch the slice behind it") {
  for (const bool nesting : {false, true}) {
    slice_lane lane(nesting);
    CHECK(lane.place(100, 200, 0, true));
    CHECK(lane.place(200, 300, 0, true));
    CHECK(lane.place(400, 500, 0, true));
    CHECK(!lane.place(350, 400, 0, true));
    CHECK(lane.place(350, 400, 0));
    CHECK(lane.place(310, 349, 0, true));
  }
}

}  // namespace chrome_lane_test
