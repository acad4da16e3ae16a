// SPDX-License-Identifier: Apache-2.0
// Numbers and texts written at a pointer (the cursor), against the standard library's.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <cutrace/output/text_buffer.hpp>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace text_digits_test {

namespace {

using namespace cutrace::detail;

/// Numbers of all lengths, each end of every length among them.
std::vector<std::uint64_t> numbers() {
  std::vector<std::uint64_t> all = {std::numeric_limits<std::uint64_t>::max()};
  for (std::uint64_t n = 0; n < 20000; ++n) all.push_back(n);
  for (std::uint64_t power = 1; power <= 1000000000000000000u; power *= 10) {
    for (std::uint64_t digit = 1; digit <= 9; ++digit) {
      for (const std::uint64_t n : {digit * power - 1, digit * power, digit * power + 1}) all.push_back(n);
    }
  }
  std::mt19937_64 random(11);
  for (int i = 0; i < 100000; ++i) all.push_back(random() >> (i % 64));
  return all;
}

template <class Put>
std::string written(Put put) {
  char at[64];
  return std::string(at, static_cast<std::size_t>(put(at) - at));
}

}  // namespace

TEST_CASE("digits: decimal numbers of any length") {
  for (const std::uint64_t n : numbers()) {
    REQUIRE(written([n](char* to) { return put_decimal(to, n); }) == std::to_string(n));
    const auto negative = static_cast<std::int64_t>(0 - n);
    REQUIRE(written([=](char* to) { return put_integer(to, negative); }) == std::to_string(negative));
  }
  for (int n = -128; n < 128; ++n) {
    REQUIRE(written([n](char* to) { return put_integer(to, static_cast<std::int8_t>(n)); }) == std::to_string(n));
  }
}

TEST_CASE("digits: hexadecimal numbers of any length") {
  for (const std::uint64_t n : numbers()) {
    char expected[32];
    std::snprintf(expected, sizeof(expected), "\"0x%llx\"", static_cast<unsigned long long>(n));
    REQUIRE(written([n](char* to) { return put_hex(to, n); }) == expected);
  }
}

TEST_CASE("digits: microseconds and millionths keep all of their places") {
  for (const std::uint64_t n : numbers()) {
    char expected[64];
    std::snprintf(expected, sizeof(expected), "%llu.%06llu", static_cast<unsigned long long>(n / 1000000),
                  static_cast<unsigned long long>(n % 1000000));
    REQUIRE(written([n](char* to) { return put_millionths(to, n); }) == expected);
    const std::uint64_t ns = n >> 1;
    std::snprintf(expected, sizeof(expected), "-%llu.%03llu", static_cast<unsigned long long>(ns / 1000),
                  static_cast<unsigned long long>(ns % 1000));
    const auto signed_ns = static_cast<std::int64_t>(ns);
    REQUIRE(written([=](char* to) { return put_microseconds(to, signed_ns); }) == expected + 1);
    if (ns != 0) REQUIRE(written([=](char* to) { return put_microseconds(to, -signed_ns); }) == expected);
  }
}

TEST_CASE("digits: a text of any length is copied, and nothing after it is touched") {
  std::string source;
  for (int i = 0; i < 300; ++i) source += static_cast<char>('!' + i % 90);
  for (std::size_t n = 0; n <= source.size(); ++n) {
    std::vector<char> to(n + 1, '\x7f');
    const std::string s = source.substr(0, n);
    REQUIRE(put_text(to.data(), s) == to.data() + n);
    REQUIRE(std::string(to.data(), n) == s);
    REQUIRE(to[n] == '\x7f');
  }
}

}  // namespace text_digits_test
