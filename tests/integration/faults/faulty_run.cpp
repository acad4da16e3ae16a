// SPDX-License-Identifier: Apache-2.0
// The traced program of the tests of bad input: a fixed piece of work through the driver API, whose output and exit
// code depend on the driver's answers alone. What a tracer does or cannot do must not show in either. Built with
// markers only (for injection), and with FAULTY_RUN_SESSION with the runtime and a session of its own.
//
//   --rounds=N --launches=N --threads=N --pause-ms=N      the last one: between rounds
//   --first-client=NAME            another client takes CUPTI before cutrace can; without a NAME, as clients of CUDA 12
//                                  and older do
//   --load=FILE                    a library that the program has loaded before
//   --sinks=S --backend=S --memory=BYTES     options of the session, instead of the environment
//   --stop-deadline-ms=N           of the session
//   --sessions=N                   the whole work in N sessions, one after the other
//   --paused=1                     the session is paused before the work
//   --linger-ms=N                  waits at the end
//   --runtime=1                    allocates through the runtime API
#include <cupti.h>

#include <atomic>
#include <chrono>
#include <cutrace/cutrace.hpp>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "../../support/runtime_calls.hpp"
#include "hide_libraries.hpp"

namespace {

struct options {
  std::map<std::string, std::string> given;
  unsigned number(const char* name, unsigned otherwise) const {
    const auto found = given.find(name);
    return found != given.end() ? static_cast<unsigned>(std::stoul(found->second)) : otherwise;
  }
  const char* text(const char* name) const {
    const auto found = given.find(name);
    return found != given.end() ? found->second.c_str() : nullptr;
  }
};

/// What one thread did, reported when all have ended.
struct report {
  unsigned long sum = 0;
  std::vector<std::string> failures;
  bool call(const char* name, CUresult r) {
    if (r != CUDA_SUCCESS) failures.push_back(std::string(name) + "=" + std::to_string(static_cast<int>(r)));
    return r == CUDA_SUCCESS;
  }
};
#define DO(to, name, ...) to.call(#name, CU(name)(__VA_ARGS__))

struct device {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
};

constexpr std::size_t bytes = 4096;

void round(report& r, const device& d, CUstream stream, unsigned number, const options& o) {
  CUTRACE_STAGE("round", number);
  const unsigned launches = o.number("launches", 3);
  CUdeviceptr memory = 0;
  bool allocated = false;
  const auto allocate = [&] { allocated = DO(r, cuMemAlloc, &memory, bytes); };
  if (o.number("runtime", 0) != 0)
    IN_RUNTIME_CALL(cudaMalloc_v3020, allocate);
  else
    allocate();
  if (!allocated) return;
  std::vector<unsigned char> host(bytes);
  for (std::size_t i = 0; i < bytes; ++i) host[i] = static_cast<unsigned char>(i * 7 + number);
  DO(r, cuMemcpyHtoDAsync, memory, host.data(), bytes, stream);
  DO(r, cuMemsetD8Async, memory, 0x5a, bytes / 2, stream);
  for (unsigned i = 0; i < launches; ++i)
    DO(r, cuLaunchKernel, d.kernel, 4, 1, 1, 64, 1, 1, 0, stream, nullptr, nullptr);
  DO(r, cuStreamSynchronize, stream);
  DO(r, cuMemcpyDtoH, host.data(), memory, bytes);
  for (const unsigned char c : host) r.sum = r.sum * 31 % 1000003 + c;
  DO(r, cuMemFree, memory);
}

std::atomic<unsigned> arrived{0};

void work(report& r, const device& d, const options& o) {
  // All begin together: on a busy machine the first would be done before the last is there.
  for (++arrived; arrived < o.number("threads", 1);) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CUstream stream = nullptr;
  DO(r, cuCtxSetCurrent, d.context);
  if (!DO(r, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING)) return;
  for (unsigned i = 0; i < o.number("rounds", 4); ++i) {
    round(r, d, stream, i, o);
    std::this_thread::sleep_for(std::chrono::milliseconds(o.number("pause-ms", 0)));
  }
  DO(r, cuStreamDestroy, stream);
}

int run(const options& o) {
  if (dlopen("libcuda.so.1", RTLD_NOW) == nullptr) {
    std::puts("no driver");
    return 3;
  }
  report start;
  device d;
  CUdevice first = 0;
  if (!DO(start, cuInit, 0)) {
    std::printf("no device: %s\n", start.failures[0].c_str());
    return 4;
  }
  DO(start, cuDeviceGet, &first, 0);
  DO(start, cuDevicePrimaryCtxRetain, &d.context, first);
  DO(start, cuCtxSetCurrent, d.context);
  DO(start, cuModuleLoadData, &d.module, "any image");
  DO(start, cuModuleGetFunction, &d.kernel, d.module, "faulty_kernel");
  std::vector<report> reports(o.number("threads", 1));
  std::vector<std::thread> threads;
  for (report& r : reports) threads.emplace_back([&] { work(r, d, o); });
  for (std::thread& t : threads) t.join();
  reports.push_back(start);
  std::size_t failures = 0;
  for (const report& r : reports) {
    std::printf("sum %lu\n", r.sum);
    for (const std::string& f : r.failures) std::printf("  %s\n", f.c_str());
    failures += r.failures.size();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(o.number("linger-ms", 0)));
  return static_cast<int>(40 + (failures < 20 ? failures : 20));  // no code that a crash or a shell would give
}

void take_cupti(const char* name) {
  CUpti_SubscriberHandle subscriber = nullptr;
  CUpti_SubscriberParams params{};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.subscriberName = name;
  const auto ignore = [](void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {};
  const CUptiResult r = *name != '\0' ? CUPTI(cuptiSubscribe_v2)(&subscriber, ignore, nullptr, &params)
                                      : CUPTI(cuptiSubscribe)(&subscriber, ignore, nullptr);
  if (r != CUPTI_SUCCESS) std::puts("not the first");
}

#ifdef FAULTY_RUN_SESSION
int run_traced(const options& o) {
  cutrace::session_options s;
  s.sinks = o.text("sinks");
  s.backend = o.text("backend");
  s.memory_limit_bytes = o.number("memory", 0);
  s.stop_deadline_ms = o.number("stop-deadline-ms", s.stop_deadline_ms);
  int code = 0;
  try {
    for (unsigned i = 0; i < o.number("sessions", 1); ++i) {
      cutrace::session trace(s);
      if (o.number("paused", 0) != 0) trace.pause();
      code = run(o);
    }
  } catch (const cutrace::config_error& e) {
    std::printf("config_error: %s\n", e.what());
    return 5;
  }
  return code;
}
#else
int run_traced(const options& o) { return run(o); }
#endif

}  // namespace

int main(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    if (word.compare(0, 2, "--") != 0 || equals == std::string::npos) return 2;
    o.given[word.substr(2, equals - 2)] = word.substr(equals + 1);
  }
  if (const char* file = o.text("load")) {
    if (dlopen(file, RTLD_NOW | RTLD_LOCAL) == nullptr) std::puts(dlerror());
  }
  if (const char* name = o.text("first-client")) take_cupti(name);
  return run_traced(o);
}
