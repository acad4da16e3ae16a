// SPDX-License-Identifier: Apache-2.0
// A process that makes progress is waited for, however long it takes.
#include "cutrace/patience.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <thread>

namespace patience_test {

TEST_CASE("patience: lasts while something is done, and ends when nothing has been for its time") {
  using clock = std::chrono::steady_clock;
  cutrace_tool::patience wait(50000000);
  const auto begin = clock::now();
  for (std::uint64_t done = 0; clock::now() - begin < std::chrono::milliseconds(200); ++done) {
    REQUIRE(wait.lasts(done));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const auto stalled = clock::now();
  while (wait.lasts(UINT64_MAX)) REQUIRE(clock::now() - stalled < std::chrono::seconds(30));
  CHECK(clock::now() - stalled >= std::chrono::milliseconds(50));
}

}  // namespace patience_test
