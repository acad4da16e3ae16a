// SPDX-License-Identifier: Apache-2.0
// JSON text: any bytes in, valid JSON out, read back by another parser.
#include <doctest/doctest.h>

#include <cstdint>
#include <cutrace/output/json_text.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "support/hostile_events.hpp"

namespace json_text_test {

namespace {

using cutrace::detail::json_text;

std::string escaped(std::string_view s) {
  cutrace::detail::text_buffer out;
  cutrace::detail::append_escaped(out, s);
  return std::string(out.view());
}

/// What comes back through a strict parser.
std::string round_trip(std::string_view s) {
  json_text json;
  json.value(s);
  return nlohmann::json::parse(json.view()).get<std::string>();
}

template <class Value>
std::string text_of(Value v) {
  json_text json;
  json.value(v);
  return std::string(json.view());
}

const char replacement[] = "\xEF\xBF\xBD";

}  // namespace

TEST_CASE("json text: escapes") {
  CHECK(escaped("a\"b\\c/d") == "a\\\"b\\\\c/d");
  CHECK(escaped("\n\r\t") == "\\n\\r\\t");
  CHECK(escaped(std::string("\0\x01\x1f", 3)) == "\\u0000\\u0001\\u001f");
  CHECK(escaped("\x7f") == "\x7f");
  CHECK(escaped("") == "");
}

TEST_CASE("json text: every control character survives the way there and back") {
  for (int c = 0; c < 0x20; ++c) {
    const std::string s = std::string("a") + static_cast<char>(c) + "b";
    CHECK(escaped(s).size() > s.size());
    CHECK(round_trip(s) == s);
  }
}

TEST_CASE("json text: valid UTF-8 stays as it is") {
  for (const char* s : {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
                        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    CHECK(escaped(s) == s);
  }
}

TEST_CASE("json text: wrong UTF-8 becomes one replacement character for each maximal subpart") {
  const auto replaced = [](int n) {
    std::string s;
    while (n-- > 0) s += replacement;
    return s;
  };
  CHECK(escaped("\x80") == replaced(1));
  CHECK(escaped("\xc0\xaf") == replaced(2));          // overlong
  CHECK(escaped("\xe0\x80\xaf") == replaced(3));      // overlong
  CHECK(escaped("\xed\xa0\x80") == replaced(3));      // surrogate
  CHECK(escaped("\xf4\x90\x80\x80") == replaced(4));  // beyond U+10FFFF
  CHECK(escaped("\xf5") == replaced(1));
  CHECK(escaped("\xe6\xbc") == replaced(1));  // cut short at the end
  CHECK(escaped("\xe6\xbc"
                "x") == replaced(1) + "x");  // and in the middle
  CHECK(escaped("\xf0\x9f\x9a") == replaced(1));
  CHECK(escaped("\xe6\"") == replaced(1) + "\\\"");  // the quote is not swallowed
}

TEST_CASE("json text: random bytes always give what a strict parser takes") {
  std::mt19937 random(20240611);
  std::uniform_int_distribution<int> byte(0, 255);
  std::uniform_int_distribution<int> size(0, 40);
  for (int i = 0; i < 20000; ++i) {
    std::string s;
    for (int n = size(random); n > 0; --n) s += static_cast<char>(byte(random));
    REQUIRE_NOTHROW(round_trip(s));
  }
  for (const std::string& s : hostile::names()) REQUIRE_NOTHROW(round_trip(s));
}

TEST_CASE("json text: no byte is overlooked, wherever it stands among plain ones") {
  const std::string plain = "void kernel<128>(float*)";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string alone(1, static_cast<char>(byte));
    for (std::size_t size = 1; size <= plain.size(); ++size) {
      for (std::size_t at = 0; at < size; ++at) {
        std::string name = plain.substr(0, size);
        name[at] = alone[0];
        REQUIRE(escaped(name) == escaped(name.substr(0, at)) + escaped(alone) + escaped(name.substr(at + 1)));
        REQUIRE(text_of(std::string_view(name)) == "\"" + escaped(name) + "\"");
        REQUIRE(cutrace::detail::is_plain(name) == (escaped(alone) == alone));
      }
    }
    CHECK((escaped(alone) == alone) == (byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\'));
  }
}

TEST_CASE("json text: a string at a cursor is the same string, within the room that was asked for") {
  for (const std::string& s : hostile::names()) {
    std::string at(cutrace::detail::escaped_room(s.size()) + 1, '\x7f');
    const char* const end = cutrace::detail::put_string(&at[0], s);
    CHECK(std::string(at.data(), static_cast<std::size_t>(end - at.data())) == text_of(std::string_view(s)));
    CHECK(at.back() == '\x7f');
  }
}

TEST_CASE("json text: millionths keep their six places") {
  cutrace::detail::json_text json;
  json.begin_array();
  json.millionths(0);
  json.millionths(1);
  json.millionths(1706667);
  json.millionths(50000000);
  json.millionths(18446744073709551615u);
  json.end_array();
  CHECK(json.view() == "[0.000000,0.000001,1.706667,50.000000,18446744073709.551615]");
}

TEST_CASE("json text: integers are exact at their limits") {
  CHECK(text_of(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
  CHECK(text_of(std::numeric_limits<std::uint64_t>::max()) == "18446744073709551615");
  CHECK(text_of(std::uint8_t{200}) == "200");
  CHECK(text_of(true) == "true");
}

TEST_CASE("json text: doubles come back as they were, and NaN and infinity never appear") {
  for (const double d : {0.1, 1.0 / 3.0, 1e300, -2.5e-310, 65.536, 9007199254740993.0}) {
    CHECK(nlohmann::json::parse(text_of(d)).get<double>() == d);
  }
  CHECK(text_of(65.536) == "65.536");
  CHECK(text_of(std::numeric_limits<double>::quiet_NaN()) == "null");
  CHECK(text_of(-std::numeric_limits<double>::infinity()) == "null");
}

TEST_CASE("json text: microseconds from nanoseconds, without rounding") {
  const auto us = [](std::int64_t ns) {
    json_text json;
    json.microseconds(ns);
    return std::string(json.view());
  };
  CHECK(us(0) == "0.000");
  CHECK(us(1) == "0.001");
  CHECK(us(-1) == "-0.001");
  CHECK(us(-1500) == "-1.500");
  CHECK(us((std::int64_t{1} << 53) + 1) == "9007199254740.993");
  CHECK(us(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775.808");
}

TEST_CASE("json text: commas come where they belong, whatever strings end in") {
  json_text json;
  json.begin_object();
  json.field("a", "{");
  json.field("b", "[");
  json.key("c");
  json.begin_array();
  json.value(":");
  json.value(",");
  json.begin_object();
  json.end_object();
  json.begin_array();
  json.end_array();
  json.hex(255);
  json.end_array();
  json.foreign_key("d\"\n");
  json.raw("{\"e\":1}");
  json.field("f", false);
  json.end_object();
  CHECK(json.view() ==
        "{\"a\":\"{\",\"b\":\"[\",\"c\":[\":\",\",\",{},[],\"0xff\"],\"d\\\"\\n\":{\"e\":1},\"f\":false}");
  CHECK(nlohmann::json::accept(json.view()));
}

}  // namespace json_text_test
