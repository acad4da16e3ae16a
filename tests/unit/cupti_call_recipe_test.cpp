// SPDX-License-Identifier: Apache-2.0
// The recipes of the callback (16 bytes a function: what to do at a call, where its arguments lie) against the tables
// that they are made from. Plain values lie in the parameter structure itself.
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
  unsigned plain_ones = 0, known = 0;
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
    CAPTURE(f->symbol);
    if (!plain) {
      CHECK(count == 0);
      continue;
    }
    ++plain_ones;
    CHECK(count == read_words(*f, params, false, tables));  // as of a failed call: no pointer is followed
    for (std::uint32_t i = 0; i < word_limit; ++i) CHECK(ours[i] == tables[i]);
    CHECK(r.read(nullptr, ours, plain) == 0);
  }
  CHECK(plain_ones > known / 3);  // 348 of 806 with the headers of CUDA 13.0
}

TEST_CASE("the short way reads what the tables read, of each function that it may be taken for") {
  // The short way: short_word, for functions of up to four values of 8 bytes. Pointers in each place where one may lie,
  // and values behind them.
  alignas(8) unsigned char behind[512];
  std::mt19937 random(7);
  for (unsigned char& byte : behind) byte = static_cast<unsigned char>(random());
  const unsigned char* pointers[64];
  unsigned shorts = 0, nested = 0, of_four = 0;
  for (std::uint32_t id = 0; id < 4096; ++id) {
    const function_entry* f = find_driver(id);
    if (f == nullptr) continue;
    for (std::size_t i = 0; i < 64; ++i) pointers[i] = behind + i;  // each value differs
    for (const unsigned traits : {unsigned{call_recipe::makes_work}, unsigned{call_recipe::waits}}) {
      call_recipe r;
      r.set(traits, f);
      if (!r.is_short()) continue;
      ++shorts;
      CAPTURE(f->symbol);
      std::uint64_t tables[word_limit] = {};
      REQUIRE(r.short_count() == read_words(*f, pointers, true, tables));
      for (std::uint32_t i = 0; i < r.short_count(); ++i) CHECK(r.short_word(pointers, i) == tables[i]);
      of_four += r.short_count() == 4;
      if (parameters_of(*f)->how != read_how::nested) continue;
      ++nested;
      pointers[parameters_of(*f)->offset / sizeof(void*)] = nullptr;
      CHECK(r.short_word(pointers, 0) == 0);
      pointers[parameters_of(*f)->offset / sizeof(void*)] = behind;
    }
  }
  CHECK(shorts > 200);
  CHECK(nested > 2);
  CHECK(of_four > 20);
}

TEST_CASE("calls that most programs make go the short way; those with more to do after the call do not") {
  const auto is_short = [](CUpti_driver_api_trace_cbid id, unsigned traits) {
    call_recipe r;
    r.set(traits, find_driver(static_cast<std::uint32_t>(id)));
    return r.is_short();
  };
  for (const auto id : {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
                        CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
                        CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,
                        CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2,
                        CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2, CUPTI_DRIVER_TRACE_CBID_cuEventRecord})
    CHECK(is_short(id, call_recipe::makes_work));
  CHECK(is_short(CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, call_recipe::waits));
  CHECK(is_short(CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize, call_recipe::waits));
  for (const unsigned trait : {call_recipe::updates_graph, call_recipe::uses_graph_gate, call_recipe::only_result})
    CHECK_FALSE(is_short(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, trait));
  CHECK_FALSE(is_short(CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize, call_recipe::waits));  // no parameters to read
  CHECK_FALSE(is_short(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, 0));
}

TEST_CASE("a recipe knows what a call waits for, of every function that waits") {
  unsigned char params[64] = {};
  const auto of = [&](CUpti_driver_api_trace_cbid id) {
    call_recipe r;
    r.set(call_recipe::waits, find_driver(static_cast<std::uint32_t>(id)));
    return r.waited_for(params);
  };
  const void* const first = params;
  const call_recipe::wait both = of(CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent_ptsz);
  CHECK(both.stream == first);
  CHECK(static_cast<const void*>(both.event) == params + 8);
  CHECK(both.thread_stream);
  const call_recipe::wait stream = of(CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize);
  CHECK(stream.stream == first);
  CHECK(stream.event == nullptr);
  CHECK_FALSE(stream.thread_stream);
  const call_recipe::wait event = of(CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize);
  CHECK(event.stream == nullptr);
  CHECK(event.event == first);
  const call_recipe::wait context = of(CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize);
  CHECK((context.stream == nullptr && context.event == nullptr));
  for (std::uint32_t id = 0; id < 4096; ++id) {
    const function_entry* f = find_driver(id);
    if (f == nullptr || f->work != function_work::synchronize) continue;
    CAPTURE(f->symbol);
    CHECK(f->words <= 6);  // a seventh place would lie in the word that holds those of stream and event
    std::uint64_t ours[word_limit] = {}, tables[word_limit] = {};
    call_recipe r;
    r.set(call_recipe::waits, f);
    bool plain = false;
    const std::uint32_t count = r.read(params, ours, plain);
    if (plain) CHECK(count == read_words(*f, params, false, tables));
    CHECK(r.waited_for(nullptr).stream == nullptr);
  }
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
