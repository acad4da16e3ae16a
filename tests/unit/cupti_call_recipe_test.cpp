// SPDX-License-Identifier: Apache-2.0
// The recipes of the callback against the tables that they are made from.
#include <cupti.h>
#include <doctest/doctest.h>

#include <cutrace/cupti/call_recipe.hpp>
#include <random>

namespace cupti_call_recipe_test {

namespace {

using namespace cutrace::cupti;  // NOLINT(google-build-using-namespace)

TEST_CASE("a recipe reads what the tables read, of every function of plain values") {
  alignas(8) unsigned char params[512];
  std::mt19937 random(7);
  for (unsigned char& byte : params) byte = static_cast<unsigned char>(random());
  unsigned plain_ones = 0, short_ones = 0, known = 0;
  for (std::uint32_t id = 0; id < 4096; ++id) {
    const function_entry* f = find_driver(id);
    if (f == nullptr) continue;
    ++known;
    call_recipe r;
    r.set(call_recipe::makes_work, f);
    CHECK(r.traits() == call_recipe::makes_work);
    std::uint64_t ours[word_limit] = {}, tables[word_limit] = {};
    bool plain = false;
    const std::uint32_t count = r.read(params, ours, plain);
    CHECK(r.is_short() == (plain && count <= call_recipe::short_words));
    if (!plain) {
      CHECK(count == 0);
      continue;
    }
    ++plain_ones;
    CAPTURE(f->symbol);
    CHECK(count == read_words(*f, params, false, tables));  // as of a failed call: no pointer is followed
    for (std::uint32_t i = 0; i < word_limit; ++i) CHECK(ours[i] == tables[i]);
    CHECK(r.read(nullptr, ours, plain) == 0);
    if (!r.is_short()) continue;
    ++short_ones;
    std::uint64_t few[call_recipe::short_words] = {1, 1, 1};
    CHECK(r.read_short(params, few) == count);
    for (std::uint32_t i = 0; i < call_recipe::short_words; ++i) CHECK(few[i] == tables[i]);
    CHECK(r.read_short(nullptr, few) == 0);
  }
  CHECK(short_ones > plain_ones / 2);
  CHECK(plain_ones > known / 3);  // 348 of 806 with the headers of CUDA 13.0
}

TEST_CASE("the functions that programs call most are plain, those with outputs are not") {
  const auto plain = [](CUpti_driver_api_trace_cbid id) {
    alignas(8) const unsigned char params[512] = {};
    std::uint64_t words[word_limit];
    bool is = false;
    call_recipe r;
    r.set(0, find_driver(static_cast<std::uint32_t>(id)));
    r.read(params, words, is);
    return is;
  };
  CHECK(plain(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
  CHECK(plain(CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync));
  CHECK(plain(CUPTI_DRIVER_TRACE_CBID_cuEventRecord));
  CHECK_FALSE(plain(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2));
}

TEST_CASE("an unknown function has its traits and no plain values") {
  call_recipe r;
  std::uint64_t words[word_limit];
  bool plain = true;
  r.set(call_recipe::makes_work | call_recipe::uses_graph_gate, nullptr);
  CHECK(r.traits() == (call_recipe::makes_work | call_recipe::uses_graph_gate));
  CHECK(r.read(words, words, plain) == 0);
  CHECK_FALSE(plain);
  CHECK_FALSE(r.is_short());
}

}  // namespace

}  // namespace cupti_call_recipe_test
