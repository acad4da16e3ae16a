// SPDX-License-Identifier: Apache-2.0
// The generated function tables against the parameter structures of the CUDA headers themselves.
#include <cupti.h>
#include <doctest/doctest.h>

#include <cstring>
#include <cutrace/cupti/functions.hpp>
#include <cutrace/cupti/library.hpp>
#include <string>

namespace cupti_functions_test {

namespace {

using namespace cutrace;         // NOLINT(google-build-using-namespace)
using namespace cutrace::cupti;  // NOLINT(google-build-using-namespace)

/// Words by name, as a sink would show them.
struct call {
  call(const function_entry* f, const void* params, bool succeeded = true) : entry(f) {
    REQUIRE(f != nullptr);
    count = read_words(*f, params, succeeded, words);
    info = describe(*f, parameters);
  }
  std::uint64_t operator[](const char* name) const {
    for (std::uint32_t i = 0; i < info.parameter_count; ++i) {
      if (std::strcmp(parameters[i].name, name) == 0) return words[i];
    }
    FAIL("no argument ", name, " in ", entry->symbol);
    return 0;
  }
  argument_kind kind(const char* name) const {
    for (std::uint32_t i = 0; i < info.parameter_count; ++i) {
      if (std::strcmp(parameters[i].name, name) == 0) return parameters[i].kind;
    }
    FAIL("no argument ", name, " in ", entry->symbol);
    return argument_kind::word;
  }
  std::uint64_t bytes() const { return info.bytes_parameter < 0 ? ~0ull : words[info.bytes_parameter]; }

  const function_entry* entry;
  std::uint64_t words[word_limit] = {};
  std::uint32_t count = 0;
  function_info::parameter parameters[word_limit] = {};
  function_info info{};
};

const function_entry* driver(CUpti_driver_api_trace_cbid id) { return find_driver(static_cast<std::uint32_t>(id)); }
const function_entry* runtime(CUpti_runtime_api_trace_cbid id) { return find_runtime(static_cast<std::uint32_t>(id)); }

template <class T>
T address(std::uint64_t v) {
  return reinterpret_cast<T>(static_cast<std::uintptr_t>(v));
}

std::string names_of(const function_entry* f) {
  REQUIRE(f != nullptr);
  std::string s;
  for (std::uint32_t i = 0; i < f->words; ++i) {
    s += s.empty() ? "" : " ";
    s += parameters_of(*f)[i].name;
  }
  return s;
}

}  // namespace

TEST_CASE("library: the CUDA release of a libcupti, where the number is that of two") {
  CHECK(cuda_major_of(17, "libcupti.so.12") == 11);
  CHECK(cuda_major_of(18, "/usr/lib/libcupti.so.11.8") == 11);
  CHECK(cuda_major_of(18, "/usr/lib/libcupti.so.12") == 12);
  CHECK(cuda_major_of(18, "/usr/lib/libcupti.so.2022.4.0") == 0);
  CHECK(cuda_major_of(18, "/usr/lib/libcupti.so") == 0);
  CHECK(cuda_major_of(18, "") == 0);
  CHECK(cuda_major_of(19, "libcupti.so.11.8") == 12);
  CHECK(cuda_major_of(130001, "libcupti.so.12") == 13);
}

TEST_CASE("cupti functions: names lose version and stream suffix, symbols keep them") {
  CHECK(std::string(driver(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2)->name) == "cuMemAlloc");
  CHECK(std::string(driver(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2)->symbol) == "cuMemAlloc_v2");
  CHECK(std::string(driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz)->name) == "cuMemcpyHtoDAsync");
  CHECK(std::string(runtime(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000)->name) == "cudaMemcpyAsync");
}

TEST_CASE("cupti functions: allocation shows its size and, after success, the address") {
  CUdeviceptr out = 0x7f0000001000;
  cuMemAlloc_v2_params p{};
  p.dptr = &out;
  p.bytesize = 4000000;
  const call ok(driver(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2), &p);
  CHECK(names_of(ok.entry) == "dptr bytesize");
  CHECK(ok.kind("dptr") == argument_kind::output);
  CHECK(ok.kind("bytesize") == argument_kind::bytes);
  CHECK(ok["dptr"] == out);
  CHECK(ok.bytes() == 4000000);
  CHECK(ok.entry->work == function_work::allocate);
  CHECK_FALSE(ok.info.makes_gpu_work);

  p.dptr = address<CUdeviceptr*>(8);  // must not be touched
  const call failed(driver(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2), &p, false);
  CHECK(failed["dptr"] == 0);
  CHECK(failed.bytes() == 4000000);

  p.dptr = nullptr;
  const call null(driver(CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2), &p);
  CHECK(null["dptr"] == 0);
}

TEST_CASE("cupti functions: a kernel launch keeps function and stream only") {
  cuLaunchKernel_params p{};
  p.f = address<CUfunction>(0x1111);
  p.hStream = address<CUstream>(0x2222);
  p.gridDimX = 9;
  for (auto id : {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz}) {
    const call c(driver(id), &p);
    CHECK(names_of(c.entry) == "f hStream");
    CHECK(c.entry->parameters == 11);
    CHECK(c["f"] == 0x1111);
    CHECK(c["hStream"] == 0x2222);
    CHECK(c.kind("f") == argument_kind::handle);
    CHECK(c.kind("hStream") == argument_kind::stream);
    CHECK(c.info.makes_gpu_work);
    CHECK(c.info.bytes_parameter == -1);
  }
}

TEST_CASE("cupti functions: launches by configuration report the stream through the pointer") {
  CUlaunchConfig config{};
  config.hStream = address<CUstream>(0x3333);
  cuLaunchKernelEx_params p{};
  p.config = &config;
  p.f = address<CUfunction>(0x4444);
  for (auto id : {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz}) {
    const call c(driver(id), &p);
    CHECK(c["stream"] == 0x3333);
    CHECK(c["f"] == 0x4444);
    CHECK(c.info.makes_gpu_work);
  }
  p.config = address<const CUlaunchConfig*>(16);
  const call failed(driver(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx), &p, false);
  CHECK(failed["stream"] == 0);
  CHECK(failed["f"] == 0x4444);

  cudaLaunchConfig_t c_config{};
  c_config.stream = address<cudaStream_t>(0x5555);
  cudaLaunchKernelExC_v11060_params q{};
  q.config = &c_config;
  q.func = address<const void*>(0x6666);
  const call c(runtime(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060), &q);
  CHECK(c["stream"] == 0x5555);
  CHECK(c["func"] == 0x6666);
}

TEST_CASE("cupti functions: copies report direction and bytes") {
  cuMemcpyHtoDAsync_v2_params p{};
  p.dstDevice = 0x10;
  p.srcHost = address<const void*>(0x20);
  p.ByteCount = 1 << 20;
  p.hStream = address<CUstream>(0x30);
  const call c(driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2), &p);
  CHECK(names_of(c.entry) == "dstDevice srcHost ByteCount hStream");
  CHECK(c.kind("dstDevice") == argument_kind::pointer);
  CHECK(c["dstDevice"] == 0x10);
  CHECK(c["srcHost"] == 0x20);
  CHECK(c["hStream"] == 0x30);
  CHECK(c.bytes() == 1 << 20);
  CHECK(c.info.direction == copy_direction::host_to_device);
  CHECK(c.info.makes_gpu_work);
  CHECK(driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2)->direction == copy_direction::device_to_host);
  CHECK(driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2)->direction == copy_direction::device_to_device);
  CHECK(driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeer)->direction == copy_direction::peer);
  CHECK(driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync)->direction == copy_direction::unknown);
}

TEST_CASE("cupti functions: copies by description have bytes = width * height * depth") {
  CUDA_MEMCPY2D two{};
  two.WidthInBytes = 100;
  two.Height = 7;
  cuMemcpy2D_v2_params p{};
  p.pCopy = &two;
  CHECK(call(driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2), &p).bytes() == 700);
  CHECK(call(driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2), &p, false).bytes() == 0);

  CUDA_MEMCPY3D three{};
  three.WidthInBytes = 100;
  three.Height = 7;
  three.Depth = 3;
  cuMemcpy3DAsync_v2_params q{};
  q.pCopy = &three;
  q.hStream = address<CUstream>(0x77);
  const call c(driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2), &q);
  CHECK(c.bytes() == 2100);
  CHECK(c["hStream"] == 0x77);

  CUDA_MEMCPY3D_PEER peer{};
  peer.WidthInBytes = 10;
  peer.Height = 20;
  peer.Depth = 30;
  cuMemcpy3DPeer_params r{};
  r.pCopy = &peer;
  CHECK(call(driver(CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeer), &r).bytes() == 6000);
}

TEST_CASE("cupti functions: the runtime's three-dimensional copy counts bytes only without arrays") {
  cudaMemcpy3DParms parms{};
  parms.extent = {64, 4, 2};
  cudaMemcpy3D_v3020_params p{};
  p.p = &parms;
  CHECK(call(runtime(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3D_v3020), &p).bytes() == 512);
  parms.dstArray = address<cudaArray_t>(0x99);
  CHECK(call(runtime(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3D_v3020), &p).bytes() == 0);
}

TEST_CASE("cupti functions: sets scale with the element") {
  cuMemsetD2D32_v2_params p{};
  p.Width = 10;
  p.Height = 3;
  CHECK(call(driver(CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32_v2), &p).bytes() == 120);
  cuMemsetD16Async_params q{};
  q.N = 9;
  q.us = 0xffff;
  const call c(driver(CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async), &q);
  CHECK(c.bytes() == 18);
  CHECK(c["us"] == 0xffff);  // not sign-extended
  cudaMemset3D_v3020_params r{};
  r.extent = {5, 6, 7};
  r.value = -2;
  const call d(runtime(CUPTI_RUNTIME_TRACE_CBID_cudaMemset3D_v3020), &r);
  CHECK(d.bytes() == 210);
  CHECK(static_cast<std::int64_t>(d["value"]) == -2);
  CHECK(d.kind("value") == argument_kind::integer);
}

TEST_CASE("cupti functions: numbers keep sign and fraction") {
  CUstream out = address<CUstream>(0xabc);
  cuStreamCreateWithPriority_params p{};
  p.phStream = &out;
  p.priority = -5;
  const call c(driver(CUPTI_DRIVER_TRACE_CBID_cuStreamCreateWithPriority), &p);
  CHECK(c["phStream"] == 0xabc);
  CHECK(static_cast<std::int64_t>(c["priority"]) == -5);

  cuTexRefSetMipmapLevelBias_params q{};
  q.bias = 0.25f;
  const call d(driver(CUPTI_DRIVER_TRACE_CBID_cuTexRefSetMipmapLevelBias), &q);
  CHECK(d.kind("bias") == argument_kind::floating);
  const std::uint64_t bits = d["bias"];
  double value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  CHECK(value == 0.25);
}

TEST_CASE("cupti functions: arrays that a call is given are not read") {
  // `options` is not const in the header, and may point past the end when the count is 0.
  CUmodule module = address<CUmodule>(0x42);
  cuModuleLoadDataEx_params p{};
  p.module = &module;
  p.options = address<CUjit_option*>(24);
  p.optionValues = address<void**>(32);
  const call c(driver(CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx), &p);
  CHECK(c["module"] == 0x42);
  CHECK(c["options"] == 24);
  CHECK(c.kind("options") == argument_kind::pointer);

  std::size_t count = 0;
  cuGraphGetNodes_params q{};
  q.nodes = address<CUgraphNode*>(40);
  q.numNodes = &count;
  const call d(driver(CUPTI_DRIVER_TRACE_CBID_cuGraphGetNodes), &q);
  CHECK(d["nodes"] == 40);
  CHECK(d.kind("numNodes") == argument_kind::output);
}

TEST_CASE("cupti functions: work that makes no GPU record, and calls that only ask") {
  CHECK(driver(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch)->makes_gpu_work);
  CHECK(driver(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch)->work == function_work::graph);
  CHECK_FALSE(driver(CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc)->makes_gpu_work);
  CHECK_FALSE(driver(CUPTI_DRIVER_TRACE_CBID_cuGraphAddMemcpyNode)->makes_gpu_work);
  CHECK_FALSE(driver(CUPTI_DRIVER_TRACE_CBID_cuGraphMemsetNodeGetParams)->makes_gpu_work);
  CHECK(driver(CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize)->work == function_work::synchronize);
  CHECK(driver(CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2)->work == function_work::free);
  for (auto id : {CUPTI_DRIVER_TRACE_CBID_cuEventRecord, CUPTI_DRIVER_TRACE_CBID_cuEventRecord_ptsz,
                  CUPTI_DRIVER_TRACE_CBID_cuEventRecordWithFlags}) {
    CHECK(driver(id)->work == function_work::event);
    CHECK_FALSE(driver(id)->makes_gpu_work);  // else it would count as a launch whose GPU record is missing
  }
  CHECK(driver(CUPTI_DRIVER_TRACE_CBID_cuEventCreate)->work == function_work::none);
  for (auto id : {CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent, CUPTI_DRIVER_TRACE_CBID_cuCtxPushCurrent_v2,
                  CUPTI_DRIVER_TRACE_CBID_cuCtxPopCurrent_v2, CUPTI_DRIVER_TRACE_CBID_cuGetErrorName,
                  CUPTI_DRIVER_TRACE_CBID_cuGetErrorString, CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxGetState,
                  CUPTI_DRIVER_TRACE_CBID_cuKernelGetAttribute, CUPTI_DRIVER_TRACE_CBID_cuStreamIsCapturing,
                  CUPTI_DRIVER_TRACE_CBID_cuStreamGetCaptureInfo_v2, CUPTI_DRIVER_TRACE_CBID_cuEventQuery,
                  CUPTI_DRIVER_TRACE_CBID_cuThreadExchangeStreamCaptureMode}) {
    CHECK_MESSAGE(driver(id)->query, driver(id)->symbol);
  }
  for (auto id : {CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                  CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData, CUPTI_DRIVER_TRACE_CBID_cuModuleGetFunction,
                  CUPTI_DRIVER_TRACE_CBID_cuEventRecord, CUPTI_DRIVER_TRACE_CBID_cuCtxCreate_v2}) {
    CHECK_MESSAGE(!driver(id)->query, driver(id)->symbol);
  }
}

TEST_CASE("cupti functions: calls without parameters, unknown ids, unknown structures") {
  const call none(driver(CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize), nullptr);
  CHECK(none.count == 0);
  const std::uint64_t dummy[2] = {1, 2};
  CHECK(call(driver(CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize), dummy).count == 0);

  CHECK(find_driver(0) == nullptr);
  CHECK(find_driver(static_cast<std::uint32_t>(CUPTI_DRIVER_TRACE_CBID_SIZE)) == nullptr);
  CHECK(find_driver(0xffffffff) == nullptr);
  CHECK(find_runtime(static_cast<std::uint32_t>(CUPTI_RUNTIME_TRACE_CBID_SIZE)) == nullptr);

  const std::uint64_t raw[4] = {11, 12, 13, 14};
  std::uint64_t out[word_limit] = {};
  CHECK(read_raw_words(raw, out) == 4);
  CHECK(out[3] == 14);
  CHECK(read_raw_words(nullptr, out) == 0);

  const function_entry* unknown = driver(CUPTI_DRIVER_TRACE_CBID_cu64MemAlloc);  // no structure in any header
  const call c(unknown, raw);
  CHECK_FALSE(unknown->known);
  CHECK(c.count == 4);
  CHECK(c.words[0] == 11);
  CHECK(c.info.parameter_count == 0);
}

TEST_CASE("cupti functions: every callback id has an entry, and every entry is sound") {
  std::size_t functions = 0, known = 0;
  const auto check = [&](const function_entry* f) {
    if (f == nullptr) return;
    ++functions;
    known += f->known ? 1 : 0;
    CAPTURE(f->symbol);
    REQUIRE(f->symbol != nullptr);
    CHECK(std::strncmp(f->symbol, f->name, std::strlen(f->name)) == 0);
    CHECK(f->words <= word_limit);
    CHECK(f->words <= f->parameters);
    CHECK(f->bytes_word < f->words);
    CHECK_FALSE((f->query && f->makes_gpu_work));
    for (std::uint32_t i = 0; i < f->parameters; ++i) {
      const function_parameter& p = parameters_of(*f)[i];
      REQUIRE(p.name != nullptr);
      CHECK((p.size == 0) == (i >= f->words));
      CHECK(p.size <= 8);
    }
    if (f->bytes_word >= 0) CHECK(parameters_of(*f)[f->bytes_word].kind == argument_kind::bytes);
  };
  for (std::uint32_t i = 0; i < CUPTI_DRIVER_TRACE_CBID_SIZE; ++i) check(find_driver(i));
  const std::size_t drivers = functions;
  for (std::uint32_t i = 0; i < CUPTI_RUNTIME_TRACE_CBID_SIZE; ++i) check(find_runtime(i));
  CHECK(drivers == static_cast<std::size_t>(CUPTI_DRIVER_TRACE_CBID_SIZE) - 1);  // 0 is "invalid"
  CHECK(functions - drivers == static_cast<std::size_t>(CUPTI_RUNTIME_TRACE_CBID_SIZE) - 1);
  CHECK(known * 10 > functions * 7);
  CHECK(tables::cuda_version == CUDA_VERSION);
  CHECK(tables::cupti_version == CUPTI_API_VERSION);
}

TEST_CASE("cupti functions: results have the names of the headers, each code one") {
  const auto name = [](const result_entry* table, int code) {
    std::string found;
    for (const result_entry* r = table; r->name != nullptr; ++r) {
      if (r->code != code) continue;
      CHECK(found.empty());
      found = r->name;
    }
    return found;
  };
  CHECK(name(tables::driver_results, CUDA_SUCCESS) == "CUDA_SUCCESS");
  CHECK(name(tables::driver_results, CUDA_ERROR_OUT_OF_MEMORY) == "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(name(tables::driver_results, CUDA_ERROR_LAUNCH_FAILED) == "CUDA_ERROR_LAUNCH_FAILED");
  CHECK(name(tables::driver_results, CUDA_ERROR_UNKNOWN) == "CUDA_ERROR_UNKNOWN");
  CHECK(name(tables::driver_results, 77).empty());
  CHECK(name(tables::runtime_results, cudaSuccess) == "cudaSuccess");
  CHECK(name(tables::runtime_results, cudaErrorMemoryAllocation) == "cudaErrorMemoryAllocation");
  CHECK(name(tables::runtime_results, cudaErrorUnknown) == "cudaErrorUnknown");
  CHECK(sizeof(tables::driver_results) / sizeof(result_entry) > 90);
  CHECK(sizeof(tables::runtime_results) / sizeof(result_entry) > 110);
  for (const result_entry* table : {tables::driver_results, tables::runtime_results})
    for (const result_entry* r = table; r->name != nullptr; ++r) name(table, r->code);
}

}  // namespace cupti_functions_test
