// SPDX-License-Identifier: Apache-2.0
// Words of enumerations: every value has one of its own.
#include <doctest/doctest.h>

#include <cutrace/names.hpp>
#include <set>
#include <string>

namespace names_test {

namespace {

template <class Enum>
std::set<std::string> words(std::size_t n) {
  std::set<std::string> all;
  for (std::size_t i = 0; i < n; ++i) all.insert(cutrace::to_string(static_cast<Enum>(i)));
  return all;
}

}  // namespace

TEST_CASE("names: each value has a word of its own, values beyond have none") {
  CHECK(words<cutrace::event_kind>(cutrace::event_kind_count).size() == cutrace::event_kind_count);
  CHECK(words<cutrace::loss_cause>(cutrace::loss_cause_count).size() == cutrace::loss_cause_count);
  CHECK(words<cutrace::quality>(cutrace::quality_count).size() == cutrace::quality_count);
  CHECK(words<cutrace::attribution>(6).size() == 6);
  CHECK(words<cutrace::copy_direction>(6).size() == 6);
  CHECK(words<cutrace::memory_kind>(8).size() == 8);
  CHECK(words<cutrace::sync_kind>(5).size() == 5);
  CHECK(words<cutrace::memory_operation>(2).size() == 2);
  CHECK(words<cutrace::event_kind>(cutrace::event_kind_count).count("unknown") == 0);
  CHECK(std::string(cutrace::to_string(static_cast<cutrace::event_kind>(255))) == "unknown");
}

TEST_CASE("names: Kineto's spelling") {
  using namespace cutrace;
  static_assert(to_string(copy_direction::host_to_device)[0] == 'H', "usable in constant expressions");
  CHECK(std::string(to_string(copy_direction::peer)) == "PtoP");
  CHECK(std::string(to_string(memory_kind::device_static)) == "Device Static");
  CHECK(std::string(to_string(sync_kind::stream_wait_event)) == "Stream Wait Event");
}

}  // namespace names_test
