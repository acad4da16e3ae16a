// SPDX-License-Identifier: Apache-2.0
// A program with ranges of NVTX, which knows nothing of the session that is injected into it. Does what its argument
// says; nvtx_ingest_test.cpp looks at the trace.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/stage.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../../support/need.hpp"
#include "../../support/sanitized.hpp"
#include "../../support/standin_calls.hpp"

namespace {

using test_support::need;

nvtxEventAttributes_t attributes() {
  nvtxEventAttributes_t a;
  std::memset(&a, 0, sizeof(a));
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  return a;
}
nvtxEventAttributes_t named(const char* name) {
  nvtxEventAttributes_t a = attributes();
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = name;
  return a;
}
nvtxEventAttributes_t named(nvtxStringHandle_t name) {
  nvtxEventAttributes_t a = attributes();
  a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  a.message.registered = name;
  return a;
}
int push(nvtxDomainHandle_t d, const char* name) {
  const nvtxEventAttributes_t a = named(name);
  return nvtxDomainRangePushEx(d, &a);
}

int nesting() {
  need(nvtxRangePushA("outer") == 0, "level 0");
  need(nvtxRangePushW(L"inn\u00e9r \U0001F600") == 1, "level 1");
  nvtxMarkA("point");
  nvtxMarkW(L"wide point");
  need(nvtxRangePop() == 1, "back at 1");
  need(nvtxRangePop() == 0, "back at 0");
  need(nvtxRangePop() < 0, "nothing to pop");
  {
    CUTRACE_STAGE("of cutrace", 17);
    nvtxRangePushA("in a stage");
    nvtxMarkA("mark of a request");
    { CUTRACE_STAGE("in a range"); }
    nvtxRangePop();
  }
  return 0;
}

/// Two domains whose ranges cross, and a third one of the same name as the first.
int domains() {
  const nvtxDomainHandle_t triton = nvtxDomainCreateA("Triton"), wide = nvtxDomainCreateW(L"D\u00f6main");
  need(nvtxDomainCreateA("Triton") == triton, "one domain a name");
  need(push(triton, "a") == 0, "level in one domain");
  need(push(wide, "b") == 0, "level in the other");
  need(nvtxRangePushA("c") == 0, "level in the default domain");
  need(nvtxDomainRangePop(triton) == 0, "a ends while b and c are open");
  need(push(triton, "d") == 0, "level");
  need(nvtxDomainRangePop(wide) == 0, "b");
  need(nvtxRangePop() == 0, "c");
  need(nvtxDomainRangePop(triton) == 0, "d");
  nvtxDomainDestroy(triton);
  need(push(triton, "after destroy") >= 0, "a destroyed domain does no harm");
  nvtxDomainRangePop(triton);
  const nvtxDomainHandle_t nonsense = reinterpret_cast<nvtxDomainHandle_t>(std::uintptr_t{0xdeadbeef});
  push(nonsense, "nonsense domain");
  nvtxDomainRangePop(nonsense);
  return 0;
}

int facts() {
  const nvtxDomainHandle_t d = nvtxDomainCreateA("facts");
  nvtxDomainNameCategoryA(d, 5, "attention");
  const nvtxStringHandle_t name = nvtxDomainRegisterStringA(d, "registered"),
                           wide = nvtxDomainRegisterStringW(d, L"registriert \u00e4");
  need(nvtxDomainRegisterStringA(d, "registered") == name, "one handle a text");
  nvtxEventAttributes_t a = named(name);
  a.category = 5;
  a.colorType = NVTX_COLOR_ARGB;
  a.color = 0xff102030;
  a.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  a.payload.llValue = -7;
  nvtxDomainRangePushEx(d, &a);
  nvtxDomainRangePop(d);
  a = named(wide);
  a.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  a.payload.dValue = 2.5;
  nvtxDomainRangePushEx(d, &a);
  nvtxDomainRangePop(d);
  a = named("with a float");
  a.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
  a.payload.fValue = 0.5F;
  a.category = 6;
  nvtxDomainRangePushEx(d, &a);
  nvtxDomainRangePop(d);
  a = named("mark with a payload");
  a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32;
  a.payload.uiValue = 4000000000u;
  nvtxDomainMarkEx(d, &a);
  a = named("mark of signed");
  a.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  a.payload.iValue = -3;
  nvtxDomainMarkEx(d, &a);
  a = named("payload of zero");
  a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  nvtxDomainRangePushEx(d, &a);
  nvtxDomainRangePop(d);
  a = named(name);
  nvtxDomainMarkEx(d, &a);
  return 0;
}

/// Ranges that come or go with data of a layout of their own, as those of NCCL.
int with_payloads() {
  const nvtxDomainHandle_t d = nvtxDomainCreateA("NCCL");
  const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "bytes", nullptr, 0, 0, nullptr, nullptr}};
  nvtxPayloadSchemaAttr_t schema{};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries;
  schema.numEntries = 1;
  schema.payloadStaticSize = sizeof(std::uint64_t);
  const std::uint64_t bytes = 4096;
  const nvtxPayloadData_t data{nvtxPayloadSchemaRegister(d, &schema), sizeof(bytes), &bytes};
  need(nvtxDomainIsEnabled(d) == 1, "a domain is enabled");
  nvtxRangePushA("prefill");
  need(push(d, "init") == 0, "level in the domain");
  need(nvtxRangePopPayload(d, &data, 1) == 0, "popped with data");
  need(nvtxRangePop() == 0, "prefill ends");
  need(push(d, "all reduce") == 0, "level");
  need(nvtxRangePushPayload(d, &data, 1) == 1, "pushed with data");
  nvtxMarkPayload(d, &data, 1);
  need(nvtxRangePopPayload(d, nullptr, 0) == 1, "popped with none");
  need(nvtxDomainRangePop(d) == 0, "popped without");
  need(nvtxRangePopPayload(d, &data, 1) < 0, "nothing to pop");
  const nvtxRangeId_t id = nvtxRangeStartPayload(d, &data, 1);
  need(id != 0, "an id");
  nvtxRangeEndPayload(d, id, &data, 1);
  return 0;
}

int started() {
  const nvtxDomainHandle_t d = nvtxDomainCreateA("spans");
  nvtxEventAttributes_t a = named("request");
  a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  a.payload.ullValue = 99;
  const nvtxRangeId_t one = nvtxDomainRangeStartEx(d, &a), other = nvtxRangeStartA("local"),
                      never = nvtxRangeStartW(L"never ended");
  need(one != 0 && other != 0 && never != 0 && one != other, "ids");
  std::thread([&] {
    nvtxRangePushA("on the other thread");
    nvtxDomainRangeEnd(d, one);
    nvtxRangePop();
  }).join();
  nvtxRangeEnd(other);
  nvtxRangeEnd(other);
  nvtxRangeEnd(0);
  nvtxRangeEnd(~std::uint64_t{0});
  return 0;
}

int hostile() {
  const nvtxDomainHandle_t d = nvtxDomainCreateA("dom\"ain\n\xff");
  push(d, "quote \" backslash \\ newline \n");
  nvtxDomainRangePop(d);
  nvtxRangePushA("invalid \xff\xfe utf-8 \xc3");
  nvtxRangePop();
  nvtxRangePushA(nullptr);
  nvtxRangePop();
  nvtxRangePushW(nullptr);
  nvtxRangePop();
  nvtxRangePushA("");
  nvtxRangePop();
  const std::string endless(100000, 'x');
  nvtxRangePushA(endless.c_str());
  nvtxRangePop();
  const std::wstring wide(100000, L'\u20ac');
  nvtxRangePushW(wide.c_str());
  nvtxRangePop();
  const wchar_t no_code_point[] = {static_cast<wchar_t>(0xd800), static_cast<wchar_t>(0x110000), L'z', 0};
  nvtxRangePushW(no_code_point);
  nvtxRangePop();
  nvtxRangePushEx(nullptr);
  nvtxRangePop();
  nvtxEventAttributes_t a = named("too small");
  a.size = 8;
  nvtxRangePushEx(&a);
  nvtxRangePop();
  a = named("of the future");
  a.size = 4096;
  nvtxRangePushEx(&a);
  nvtxRangePop();
  a = named(reinterpret_cast<nvtxStringHandle_t>(std::uintptr_t{0xdeadbeef}));
  nvtxRangePushEx(&a);
  nvtxRangePop();
  a = attributes();
  a.messageType = 77;
  a.payloadType = 77;
  nvtxRangePushEx(&a);
  nvtxRangePop();
  nvtxNameOsThreadA(1, nullptr);
  nvtxInitialize(nullptr);
  for (int i = 0; i < 3000; ++i) nvtxDomainCreateA(("domain " + std::to_string(i)).c_str());
  for (int i = 0; i < 6000; ++i) nvtxDomainRegisterStringA(d, ("string " + std::to_string(i)).c_str());
  nvtxDomainRegisterStringA(d, nullptr);
  nvtxDomainCreateA(nullptr);
  const nvtxDomainHandle_t last = nvtxDomainCreateA("one domain too many");
  push(last, "in the last domain");
  nvtxDomainRangePop(last);
  return 0;
}

/// A thread that pushes and never pops, one that is left with open ranges, and ranges that outlive a stage.
int unbalanced() {
  std::thread([] {
    for (int i = 0; i < 1000; ++i) nvtxRangePushA("leak");
    for (int i = 0; i < 900; ++i) nvtxRangePop();
  }).join();
  std::thread([] {
    nvtxRangePushA("left open");
    CUTRACE_STAGE("in what is left open");
  }).join();
  {
    CUTRACE_STAGE("shorter");
    nvtxRangePushA("outlives");
  }
  { CUTRACE_STAGE("between"); }
  nvtxRangePop();
  nvtxRangePushA("ends inside");
  {
    CUTRACE_STAGE("around the pop");
    nvtxRangePop();
    nvtxRangePushA("second");
  }
  nvtxRangePop();
  for (int i = 0; i < 10; ++i) need(nvtxRangePop() < 0, "nothing to pop");
  CUTRACE_STAGE("after all");
  return 0;
}

int threads() {
  nvtxNameOsThreadA(static_cast<std::uint32_t>(::syscall(SYS_gettid)), "the main one");
  nvtxRangePushA("in main");
  nvtxRangePop();
  std::thread([] {
    nvtxRangePushA("in worker");
    nvtxNameOsThreadW(static_cast<std::uint32_t>(::syscall(SYS_gettid)), L"w\u00f6rker");
    nvtxRangePop();
  }).join();
  return 0;
}

/// Many threads at once, each with its own nesting, and spans that other threads end.
int crowd() {
  nvtxInitialize(nullptr);  // before the threads: ThreadSanitizer takes the volatile in NVTX's first call for a race
  std::vector<std::thread> all;
  std::vector<nvtxRangeId_t> ids(8 * 50);
  for (std::size_t t = 0; t < 8; ++t)
    all.emplace_back([t, &ids] {
      const nvtxDomainHandle_t d = nvtxDomainCreateA(t % 2 == 0 ? "even" : "odd");
      const nvtxStringHandle_t name = nvtxDomainRegisterStringA(d, "registered step");
      for (std::size_t i = 0; i < 50; ++i) {
        const nvtxEventAttributes_t a = named(name);
        nvtxDomainRangePushEx(d, &a);
        nvtxRangePushA("inner step");
        ids[t * 50 + i] = nvtxRangeStartA("span");
        nvtxRangePop();
        nvtxDomainRangePop(d);
      }
    });
  for (std::thread& t : all) t.join();
  all.clear();
  for (std::size_t t = 0; t < 4; ++t)
    all.emplace_back([t, &ids] {
      for (std::size_t i = t; i < ids.size(); i += 4) nvtxRangeEnd(ids[i]);
    });
  for (std::thread& t : all) t.join();
  return 0;
}

int in_fork() {
  nvtxRangePushA("in parent");
  const nvtxRangeId_t span = nvtxRangeStartA("span of the parent");
  const pid_t child = ::fork();
  if (child == 0) {
    nvtxRangeEnd(span);
    nvtxRangePop();
    for (int i = 0; i < 1000; ++i) {
      nvtxRangePushA("in child");
      nvtxMarkA("in child");
      nvtxRangeEnd(nvtxRangeStartA("in child"));
      nvtxRangePop();
    }
    if (!sanitized) {  // these allocate
      nvtxDomainCreateA("of the child");
      nvtxNameOsThreadA(static_cast<std::uint32_t>(::syscall(SYS_gettid)), "child");
    }
    ::_exit(0);
  }
  int status = 0;
  need(::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child's end");
  nvtxRangeEnd(span);
  nvtxRangePop();
  return 0;
}

struct late {
  ~late() {
    nvtxRangePushA("after exit");
    nvtxMarkA("after exit");
    nvtxRangePop();
  }
};

int ends_late() {
  static const late at_the_end;
  static_cast<void>(at_the_end);
  nvtxRangePushA("left open by main");
  nvtxRangePushA("before exit");
  nvtxRangePop();
  return 0;
}

CUmodule module = nullptr;
void start_cuda() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  need(CU(cuInit)(0) == CUDA_SUCCESS, "cuInit");
  need(CU(cuDeviceGet)(&device, 0) == CUDA_SUCCESS, "cuDeviceGet");
  need(CU(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS, "cuDevicePrimaryCtxRetain");
  need(CU(cuCtxSetCurrent)(context) == CUDA_SUCCESS, "cuCtxSetCurrent");
  need(CU(cuModuleLoadData)(&module, "any image") == CUDA_SUCCESS, "cuModuleLoadData");
}
void launch(const char* kernel) {
  CUfunction f = nullptr;
  need(CU(cuModuleGetFunction)(&f, module, kernel) == CUDA_SUCCESS, "cuModuleGetFunction");
  need(CU(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS, "cuLaunchKernel");
  need(CU(cuStreamSynchronize)(nullptr) == CUDA_SUCCESS, "cuStreamSynchronize");
}
void gpu_work() {
  const nvtxDomainHandle_t d = nvtxDomainCreateA("model");
  nvtxEventAttributes_t a = named(nvtxDomainRegisterStringA(d, "layer"));
  launch("kernel_outside");
  nvtxDomainRangePushEx(d, &a);
  launch("kernel_in_layer");
  nvtxRangePushA("attention");
  launch("kernel_in_attention");
  nvtxDomainRangePop(d);  // crosses: "attention" is still open
  launch("kernel_after_layer");
  nvtxRangePop();
  {
    CUTRACE_STAGE("request", 42);
    nvtxRangePushA("in request");
    launch("kernel_in_request");
    nvtxRangePop();
  }
  const nvtxRangeId_t span = nvtxRangeStartA("span");
  launch("kernel_beside_span");
  nvtxRangeEnd(span);
}
/// NVTX first, or CUDA first: each of them may bring the injected library in.
int gpu_nvtx_first() {
  nvtxMarkA("first");
  start_cuda();
  gpu_work();
  return 0;
}
int gpu_cuda_first() {
  start_cuda();
  gpu_work();
  return 0;
}
int gpu_both_at_once() {
  std::thread other([] { nvtxMarkA("first"); });
  start_cuda();
  other.join();
  gpu_work();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const struct {
    const char* name;
    int (*run)();
  } all[] = {{"nesting", nesting},
             {"domains", domains},
             {"facts", facts},
             {"with_payloads", with_payloads},
             {"started", started},
             {"hostile", hostile},
             {"unbalanced", unbalanced},
             {"threads", threads},
             {"crowd", crowd},
             {"fork", in_fork},
             {"ends_late", ends_late},
             {"gpu_nvtx_first", gpu_nvtx_first},
             {"gpu_cuda_first", gpu_cuda_first},
             {"gpu_both_at_once", gpu_both_at_once}};
  for (const auto& one : all)
    if (argc > 1 && std::strcmp(argv[1], one.name) == 0) return one.run();
  std::printf("unknown: %s\n", argc > 1 ? argv[1] : "");
  return 2;
}
