// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cutrace/detail/sampling.hpp>

using cutrace::detail::sampling;
using std::chrono::milliseconds;

TEST_CASE("sampling: how windows are written") {
  sampling s;
  REQUIRE(sampling::parse("200ms/20s", s));
  CHECK(s.on);
  CHECK(s.window_ms == 200);
  CHECK(s.period_ms == 20000);
  REQUIRE(sampling::parse("1s/1001ms", s));
  CHECK(s.window_ms == 1000);
  CHECK(s.period_ms == 1001);
  REQUIRE(sampling::parse("requests", s));
  CHECK(s.on);
  CHECK(s.period_ms == 0);
  for (const char* wrong :
       {"", "200ms", "/", "200ms/", "/20s", "200/20s", "200ms/20", "20s/200ms", "1s/1s", "9ms/1s", "200ms/86401s",
        "200ms/99999999999999999999s", "-200ms/20s", "200ms/20s ", "0ms/1s", "200ms/20m", "1/100", "request"})
    CHECK_MESSAGE(!sampling::parse(wrong, s), wrong);
}

TEST_CASE("sampling: windows by the clock") {
  sampling s;
  CHECK(s.open(milliseconds(12345)));  // off: always
  REQUIRE(sampling::parse("20ms/100ms", s));
  for (const int start : {0, 100, 7000}) {
    CHECK(s.open(milliseconds(start)));
    CHECK(s.open(milliseconds(start + 19)));
    CHECK_FALSE(s.open(milliseconds(start + 20)));
    CHECK_FALSE(s.open(milliseconds(start + 99)));
    CHECK(s.until_edge(milliseconds(start)) == milliseconds(20));
    CHECK(s.until_edge(milliseconds(start + 19)) == milliseconds(1));
    CHECK(s.until_edge(milliseconds(start + 20)) == milliseconds(80));
    CHECK(s.until_edge(milliseconds(start + 99)) == milliseconds(1));
  }
  REQUIRE(sampling::parse("requests", s));
  CHECK_FALSE(s.open(milliseconds(0)));
}
