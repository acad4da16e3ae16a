// SPDX-License-Identifier: Apache-2.0
// The Chrome JSON sink beside a file that PyTorch's Kineto wrote on an H200 (tests/data/kineto_h200.json): in each
// category that both contain, events have the same keys with values of the same JSON types.
#include <doctest/doctest.h>

#include <cmath>
#include <cutrace/sinks/chrome.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/sample_events.hpp"
#include "support/temporary_folder.hpp"

namespace kineto_shape_test {

namespace {

using json = nlohmann::json;
using types = std::map<std::string, std::string>;

/// "kernel", "M process_name", "ac2g s": events of both files are compared when they share this name.
std::string category_of(const json& e) {
  const std::string phase = e["ph"];
  if (phase == "X") return e["cat"];
  return phase == "s" || phase == "f" ? e["cat"].get<std::string>() + " " + phase
                                      : phase + " " + e["name"].get<std::string>();
}

/// JSON has one type for all numbers: a count may become a fraction, but an id that becomes text is another type.
std::string type_of(const json& value) { return value.is_number() ? "number" : value.type_name(); }

void add_types(const json& object, const std::string& before, types& to) {
  for (const auto& item : object.items()) {
    if (item.key() == "args") {
      add_types(item.value(), "args.", to);
    } else {
      to[before + item.key()] = type_of(item.value());
    }
  }
}

std::map<std::string, types> types_by_category(const json& trace) {
  std::map<std::string, types> all;
  for (const json& e : trace["traceEvents"]) {
    // Kineto's own entries, not events of the program: their pid is a string, which viewers cannot use as an id.
    if (e["pid"].is_string() && e["name"] != "Record Window End") continue;
    add_types(e, "", all[category_of(e)]);
  }
  return all;
}

json kineto() { return json::parse(content_of(std::string(CUTRACE_TEST_DATA) + "/kineto_h200.json")); }

/// What Kineto's program did: one block of 128 threads, launched through the runtime API.
json ours() {
  const temporary_folder folder;
  cutrace::chrome_sink sink(folder.file("t.json"));
  cutrace::event launch = sample::api("cudaLaunchKernel", 1000, 2000, 5);
  launch.api.runtime_api = true;
  cutrace::event kernel = sample::called_at(sample::kernel("add", 3000, 4000, 5), 1000);
  kernel.kernel.grid[0] = 1;
  kernel.kernel.block[0] = 128;
  kernel.kernel.registers_per_thread = 32;
  kernel.kernel.static_shared_bytes = kernel.kernel.dynamic_shared_bytes = 0;
  cutrace::event overhead = sample::base(cutrace::event_kind::overhead, "Activity Buffer Request", 100, 200);
  const std::vector<cutrace::event> all = {sample::device(0, "NVIDIA H200"), overhead, launch, kernel};
  sink.open(sample::info());
  sink.write(sample::view(all));
  sink.close(sample::summary(all.size()));
  return json::parse(content_of(folder.file("t.json")));
}

}  // namespace

TEST_CASE("kineto: events of the categories that both files contain have the same keys and types") {
  const auto theirs = types_by_category(kineto());
  const auto own = types_by_category(ours());
  std::set<std::string> compared;
  for (const auto& category : theirs) {
    const auto found = own.find(category.first);
    if (found == own.end()) continue;
    compared.insert(category.first);
    for (const auto& key : category.second) {
      if (key.first == "args.External id") continue;  // joins an operator of PyTorch's, of which we know none
      const auto here = found->second.find(key.first);
      CHECK_MESSAGE(here != found->second.end(), category.first << " lacks " << key.first);
      if (here == found->second.end() || category.first == "i Record Window End") continue;
      CHECK_MESSAGE(here->second == key.second, category.first << " " << key.first);
    }
    // Keys of our own look different from Kineto's.
    const std::set<std::string> optional_there = {"args.priority"};
    for (const auto& key : found->second) {
      if (category.second.count(key.first) != 0 || optional_there.count(key.first) != 0) continue;
      CHECK_MESSAGE(key.first.rfind("args.", 0) == 0, category.first << " has " << key.first);
      CHECK_MESSAGE(key.first.find_first_of(" ABCDEFGHIJKLMNOPQRSTUVWXYZ%") == std::string::npos,
                    category.first << " has " << key.first);
    }
  }
  CHECK(compared == std::set<std::string>{"M process_labels", "M process_name", "M process_sort_index", "M thread_name",
                                          "M thread_sort_index", "ac2g f", "ac2g s", "cuda_runtime",
                                          "i Record Window End", "kernel", "overhead"});
}

TEST_CASE("kineto: the document has the same keys and types, the device the same properties") {
  const json theirs = kineto(), own = ours();
  for (const char* key :
       {"schemaVersion", "displayTimeUnit", "baseTimeNanoseconds", "traceEvents", "traceName", "deviceProperties"}) {
    REQUIRE(own.contains(key));
    CHECK(type_of(own[key]) == type_of(theirs[key]));
  }
  CHECK(own["schemaVersion"] == theirs["schemaVersion"]);
  CHECK(own["displayTimeUnit"] == theirs["displayTimeUnit"]);
  const json& device = own["deviceProperties"][0];
  for (const auto& property : theirs["deviceProperties"][0].items()) {
    REQUIRE_MESSAGE(device.contains(property.key()), property.key());
    if (property.key() == "totalGlobalMem") continue;  // of another sample
    CHECK_MESSAGE(device[property.key()] == property.value(), property.key());
  }
}

TEST_CASE("kineto: the same launch has the same arguments") {
  const auto kernel_of = [](const json& trace) {
    for (const json& e : trace["traceEvents"])
      if (e.value("cat", "") == "kernel") return e["args"];
    return json();
  };
  const json theirs = kernel_of(kineto()), own = kernel_of(ours());
  for (const char* key : {"queued", "device", "context", "stream", "registers per thread", "shared memory", "grid",
                          "block", "est. achieved occupancy %"})
    CHECK_MESSAGE(own.value(key, json()) == theirs.value(key, json("none")), key);
  for (const char* key : {"blocks per SM", "warps per SM"})
    CHECK_MESSAGE(std::fabs(own.value(key, -1.0) - theirs.value(key, -2.0)) < 1e-6, key);
}

TEST_CASE("kineto: rows of threads and streams have its names") {
  const auto names_of = [](const json& trace) {
    std::set<std::string> names;
    for (const json& e : trace["traceEvents"])
      if (e["name"] == "thread_name") names.insert(e["args"]["name"].get<std::string>());
    return names;
  };
  CHECK(names_of(kineto()).count("stream 7 ") == 1);
  CHECK(names_of(ours()).count("stream 7 ") == 1);
}

}  // namespace kineto_shape_test
