// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>
#include <cutrace/sinks/common/json_event.hpp>
#include <random>
#include <string>
#include <vector>

namespace json_kept_arguments_test {

using cutrace::argument;
using cutrace::argument_kind;

TEST_CASE("kept text of arguments is what writing them anew gives, whatever changes from call to call") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto draw = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const cutrace::text names[] = {
      {"hStream", 7}, {"hStream", 4}, {"byte\"Count", 10}, {"a name that is far too long to keep", 35}, {}};
  const char* const strings[] = {"short", "with \"quotes\"", "a text that is far too long to be kept here"};
  const argument_kind kinds[] = {argument_kind::word,     argument_kind::integer, argument_kind::unsigned_integer,
                                 argument_kind::floating, argument_kind::bytes,   argument_kind::string};
  cutrace::detail::kept_arguments kept;
  std::string anew, again;
  for (int i = 0; i < 50000; ++i) {
    argument arguments[4];
    const std::uint32_t count = draw(5);
    for (std::uint32_t k = 0; k < count; ++k) {
      argument& a = arguments[k];
      a.name = names[draw(5)];
      a.kind = kinds[draw(6)];
      a.value = a.kind == argument_kind::string ? argument::word_of(strings[draw(3)])
                                                : 0x7f32a4000000u * draw(2) + draw(300) - std::uint64_t{draw(2)};
    }
    const std::size_t room = cutrace::detail::arguments_room(arguments, count);
    std::vector<char> first(room), second(room);
    anew.assign(first.data(), cutrace::detail::put_arguments(first.data(), arguments, count));
    again.assign(second.data(), kept.put(second.data(), arguments, count));
    REQUIRE(again == anew);
    if (draw(5000) == 0) kept.clear();
  }
}

}  // namespace json_kept_arguments_test
