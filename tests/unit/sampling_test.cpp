// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cutrace/run/sampling.hpp>

namespace sampling_test {

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
  REQUIRE(sampling::parse("requests", s));  // windows are where the program wants them
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

TEST_CASE("sampling: a part of the time") {
  std::uint32_t ms = 1;
  CHECK((sampling::parse_time("0s", ms) && ms == 0));
  CHECK((sampling::parse_time("250ms", ms) && ms == 250));
  CHECK((sampling::parse_time("10s", ms) && ms == 10000));
  CHECK((sampling::parse_time("5m", ms) && ms == 300000));
  CHECK((sampling::parse_time("86400s", ms) && ms == 86400000));
  for (const char* wrong : {"", "10", "s", "m", "ms", "-1s", "86401s", "1441m", "1h", "1.5s", "10sm", "5mm", "10s ",
                            "99999999999999999999s"})
    CHECK_MESSAGE(!sampling::parse_time(wrong, ms), wrong);

  sampling s;
  CHECK(!s.gated());
  s.after_ms = 100;
  CHECK(s.gated());
  CHECK(!s.open(milliseconds(99)));
  CHECK(!s.open(milliseconds(99), true));  // not even where the program wants a window
  CHECK(s.open(milliseconds(100)));
  CHECK(s.until_edge(milliseconds(40)) == milliseconds(60));
  CHECK(s.until_edge(milliseconds(100)) == sampling::clock::duration::max());
  s.duration_ms = 50;
  CHECK(s.until_edge(milliseconds(100)) == milliseconds(50));
  CHECK(s.open(milliseconds(149)));
  CHECK(!s.open(milliseconds(150)));
  CHECK(s.until_edge(milliseconds(150)) == sampling::clock::duration::max());
  REQUIRE(sampling::parse("20ms/40ms", s));  // windows within that time
  CHECK(s.after_ms == 100);
  CHECK(!s.open(milliseconds(80)));
  CHECK(s.open(milliseconds(120)));
  CHECK(!s.open(milliseconds(105)));
  CHECK(s.open(milliseconds(105), true));
  CHECK(s.until_edge(milliseconds(105)) == milliseconds(15));
  CHECK(s.until_edge(milliseconds(149)) == milliseconds(1));
}

}  // namespace sampling_test
