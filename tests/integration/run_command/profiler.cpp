// SPDX-License-Identifier: Apache-2.0
// A program that profiles itself by CUPTI, as PyTorch (linked with libcupti) and JAX (by dlsym) do: subscribes, or
// registers buffers alone, and counts the kernels that it gets for the 25 that it launches.
#include <cupti.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "../../support/gpu_program.hpp"

namespace {

#if defined(PROFILER_LINKED) || defined(PROFILER_STUB)
#define PROFILE(name) (&::name)
#else
void* library() {
  static void* const opened = dlopen(std::getenv("CUTRACE_CUPTI_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  return opened;
}
#define PROFILE(name) reinterpret_cast<decltype(&::name)>(dlsym(library(), #name))
#endif

int kernels = 0, others = 0, wrong = 0, asked = 0, returned = 0;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  ++asked;
  *size = 64 << 10;
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *size));
  *most = 0;
}
void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  ++returned;
  CUpti_Activity* record = nullptr;
  while (valid != 0 && PROFILE(cuptiActivityGetNextRecord)(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      ++others;
      continue;
    }
    const auto* k = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    ++kernels;
    wrong += k->start == 0 || k->end < k->start || k->queued != 0 ? 1 : 0;  // `queued` is for who asks for it
  }
  std::free(buffer);
}
void CUPTIAPI on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  const test_support::gpu_device gpu;
  gpu.launch(nullptr, 7);
  DO(cuStreamSynchronize, nullptr);
  if (how == "quiet") return std::printf("no profile\n") > 0 ? 0 : 1;
  ::usleep(200000);  // by then the first events of --gpu-events exist
  CUpti_SubscriberHandle subscriber{};
  if (how == "subscribes" || how == "subscribes_too") {
    CUptiResult r = CUPTI_SUCCESS;
    if (how == "subscribes_too") {
      CUpti_SubscriberParams p{};
      p.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
      p.subscriberName = "profiler";
      r = PROFILE(cuptiSubscribe_v2)(&subscriber, &on_call, nullptr, &p);
    } else {
      r = PROFILE(cuptiSubscribe)(&subscriber, &on_call, nullptr);
    }
    if (r != CUPTI_SUCCESS) return std::printf("refused (%d)\n", static_cast<int>(r)) > 0 ? 3 : 1;
  }
  std::atomic<bool> end{false};
  std::vector<std::thread> others_launch;
  for (int i = 0; how == "beside_threads" && i < 4; ++i)
    others_launch.emplace_back([&] {
      DO(cuCtxSetCurrent, gpu.context);
      while (!end) gpu.launch(nullptr, 10);
    });
  if (how == "beside_threads") ::usleep(50000);
  if (how == "registers_twice") PROFILE(cuptiActivityRegisterCallbacks)(&give_buffer, &take_buffer);
  if (how == "enables_first") PROFILE(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  PROFILE(cuptiActivityRegisterCallbacks)(&give_buffer, &take_buffer);
  if (how != "enables_first") PROFILE(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (how == "beside_threads") ::usleep(50000);
  end = true;
  for (std::thread& t : others_launch) t.join();
  gpu.launch(nullptr, 25);
  DO(cuStreamSynchronize, nullptr);
  PROFILE(cuptiActivityFlushAll)(0);
  PROFILE(cuptiActivityDisable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (subscriber != nullptr) PROFILE(cuptiUnsubscribe)(subscriber);
  std::printf("%d kernels, %d with wrong times, %d other records, %d buffers are out\n", kernels, wrong, others,
              asked - returned);
  return 0;
}
