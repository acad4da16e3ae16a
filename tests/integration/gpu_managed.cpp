// SPDX-License-Identifier: Apache-2.0
// Managed memory that moves to a GPU because a kernel touches it, and back because the host does: 8 MiB, never more
// than a card has free. Runs on a real GPU in tests/gpu/run; the stand-in has no managed memory, so that it is skipped
// there (77). A line a scenario; ends with the number of those that failed.
#include <cuda.h>

#include <chrono>
#include <cstdlib>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/memory.hpp>
#include <string>
#include <thread>

#include "../support/gpu_program.hpp"

namespace {

using test_support::failures;
using test_support::report;

/// `touch(words, count)`: one more in each of `count` 32-bit words.
CUfunction touching_kernel() {
  static const char image[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry touch(.param .u64 words, .param .u64 count) {
  .reg .b64 %rd<6>;
  .reg .b32 %r<6>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [words];
  ld.param.u64 %rd2, [count];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  cvt.u64.u32 %rd3, %r4;
  setp.ge.u64 %p1, %rd3, %rd2;
  @%p1 bra DONE;
  shl.b64 %rd4, %rd3, 2;
  add.s64 %rd5, %rd1, %rd4;
  ld.u32 %r5, [%rd5];
  add.u32 %r5, %r5, 1;
  st.u32 [%rd5], %r5;
DONE:
  ret;
}
)";
  CUmodule module{};
  CUfunction kernel{};
  DO(cuModuleLoadData, &module, image);
  DO(cuModuleGetFunction, &kernel, module, "touch");
  return kernel;
}

struct moved {
  std::uint64_t to_device = 0, to_host = 0, faults = 0;
  bool by_driver = true;  ///< managed at both ends, and of no call

  explicit moved(const cutrace::memory_sink& sink) {
    for (const cutrace::event& e : sink.events()) {
      const std::string name(e.name.data, e.name.size);
      if (e.kind == cutrace::event_kind::counter && name == "GPU 0 page faults")
        faults += static_cast<std::uint64_t>(e.counter.change);
      if (e.kind != cutrace::event_kind::memcpy) continue;
      const cutrace::memcpy_data& m = e.memcpy_;
      if (name == "migration HtoD") to_device += m.bytes;
      if (name == "migration DtoH") to_host += m.bytes;
      by_driver = by_driver && m.source == cutrace::memory_kind::managed &&
                  m.destination == cutrace::memory_kind::managed && e.joined == cutrace::attribution::no_callback;
    }
  }
  std::string text() const {
    return std::to_string(to_device) + " bytes to the device, " + std::to_string(to_host) + " to the host, " +
           std::to_string(faults) + " page faults of the GPU";
  }
};

}  // namespace

int main() {
  setenv("CUTRACE_KINDS", "+unified", 1);
  cutrace::session_options options;
  options.sinks = "null";
  options.backend = "cupti";
  cutrace::session trace(options);
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  const test_support::gpu_device gpu(0);
  constexpr std::size_t bytes = std::size_t{8} << 20, words = bytes / sizeof(std::uint32_t);
  CUdeviceptr memory = 0;
  const CUresult r = CU(cuMemAllocManaged)(&memory, bytes, CU_MEM_ATTACH_GLOBAL);
  if (r == CUDA_ERROR_NOT_SUPPORTED) {
    std::puts("skipped: no managed memory here");
    return 77;
  }
  test_support::must(static_cast<int>(r), "cuMemAllocManaged");
  CUfunction touch = touching_kernel();
  // Records of managed memory can be asked for once CUDA has been initialised, so this session does so a moment later.
  std::this_thread::sleep_for(std::chrono::seconds(1));

  std::uint32_t* const on_host = reinterpret_cast<std::uint32_t*>(memory);
  for (std::size_t i = 0; i < words; ++i) on_host[i] = static_cast<std::uint32_t>(i);
  std::uint64_t count = words;
  void* arguments[] = {&memory, &count};
  DO(cuLaunchKernel, touch, words / 256, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr);
  DO(cuStreamSynchronize, nullptr);
  std::size_t right = 0;
  for (std::size_t i = 0; i < words; ++i) right += on_host[i] == i + 1;
  trace.stop();
  DO(cuMemFree, memory);

  report(right == words, "the kernel's results are the program's",
         std::to_string(right) + " of " + std::to_string(words) + " words");
  const moved m(sink);
  report(m.to_device > 0 && m.to_device <= 2 * bytes && m.to_host > 0 && m.to_host <= 2 * bytes && m.faults > 0 &&
             m.by_driver,
         "8 MiB move to the device and back", m.text());
  const cutrace::stats s = trace.stats();
  report(s.produced == s.delivered && s.lost_total() == 0, "nothing is lost", std::to_string(s.delivered) + " events");
  return failures;
}
