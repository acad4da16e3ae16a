// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cutrace/sinks/common/json_membership.hpp>
#include <random>
#include <string>
#include <vector>

namespace json_membership_test {

using cutrace::event;
using cutrace::request_ref;
using cutrace::detail::json_text;
using cutrace::detail::membership_fields;

namespace {

std::string plain(const event& e) {
  json_text json;
  json.begin_object();
  membership_fields::render(json, e);
  json.end_object();
  return std::string(json.view());
}
std::string kept(membership_fields& fields, const event& e) {
  json_text json;
  json.begin_object();
  fields.write(json, e);
  json.end_object();
  return std::string(json.view());
}

}  // namespace

TEST_CASE("kept text of a stage is what rendering it anew gives, whatever changes from event to event") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto draw = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const cutrace::text names[] = {{"decode", 6}, {"prefill", 7}, {"dec\"ode", 7}, {}};
  membership_fields fields;
  for (int i = 0; i < 50000; ++i) {
    event e;
    e.stage_id = std::uint64_t{draw(3)} << 40 | draw(40);  // some share a slot, 0 is no stage
    e.stage_name = names[draw(4)];
    std::vector<request_ref> requests;
    const std::uint32_t count = draw(20) == 0 ? 250 + draw(12) : draw(4);
    for (std::uint32_t k = 0; k < count; ++k) {
      request_ref r;
      r.id = k + draw(2);
      if (draw(8) == 0) r.name = names[draw(4)];
      requests.push_back(r);
    }
    e.requests = requests.data();
    e.request_count = count;
    e.request_total = count + draw(2);
    REQUIRE(kept(fields, e) == plain(e));
    REQUIRE(kept(fields, e) == plain(e));
  }
}

TEST_CASE("a request set that is announced and not there is left out") {
  membership_fields fields;
  event e;
  e.stage_id = 5;
  e.request_count = e.request_total = 3;
  CHECK(kept(fields, e) == plain(e));
  CHECK(plain(e) == "{\"stage_id\":5}");
}

TEST_CASE("where only the number of requests is known, it is written") {
  membership_fields fields;
  event e;
  e.stage_id = 5;
  e.request_total = 3;
  CHECK(kept(fields, e) == plain(e));
  CHECK(plain(e) == "{\"stage_id\":5,\"request_total\":3}");
}

TEST_CASE("requests that changed at the same address are written anew") {
  membership_fields fields;
  std::vector<request_ref> requests(3);
  event e;
  e.stage_id = 5;
  e.requests = requests.data();
  e.request_count = e.request_total = 3;
  for (std::uint64_t round = 1; round < 100; ++round) {
    requests[round % 3].id = round;
    REQUIRE(kept(fields, e) == plain(e));
    REQUIRE(kept(fields, e) == plain(e));
    const std::vector<request_ref> others = {{round, {}}, {7, {}}, {8, {}}};
    e.requests = others.data();
    REQUIRE(kept(fields, e) == plain(e));
    e.requests = requests.data();
    REQUIRE(kept(fields, e) == plain(e));
  }
}

TEST_CASE("what a stage says of itself leaves out its name") {
  membership_fields fields;
  std::vector<request_ref> requests(1);
  requests[0].id = 9;
  event e;
  e.stage_id = 5;
  e.stage_name = {"dec\"ode", 7};
  CHECK(fields.fields_of_stage(e) == "\"stage_id\":5");
  e.requests = requests.data();
  e.request_count = e.request_total = 1;
  CHECK(fields.fields_of_stage(e) == "\"stage_id\":5,\"requests\":[9]");
  CHECK(fields.fields(e) == "\"stage\":\"dec\\\"ode\",\"stage_id\":5,\"requests\":[9]");
  e.stage_name = {};
  CHECK(fields.fields_of_stage(e) == "\"stage_id\":5,\"requests\":[9]");
  e.stage_id = 0;
  CHECK(fields.fields_of_stage(e) == "\"requests\":[9]");
  e.requests = nullptr;
  e.request_count = e.request_total = 0;
  e.stage_name = {"alone", 5};
  CHECK(fields.fields_of_stage(e) == "");
  CHECK(fields.fields(e) == "\"stage\":\"alone\"");
}

}  // namespace json_membership_test
