// SPDX-License-Identifier: Apache-2.0
// Kernels that fault: which error, and where in a program. Each prints the result that it met and ends with status 3.
#pragma once

#include "gpu.hpp"

namespace stuck {

class faults {
 public:
  /// `kind`: illegal, trap, misaligned, assert.
  faults(gpu& g, const std::string& kind, bool polls) : g_(g), polls_(polls) {
    const char* const kinds[] = {"illegal", "trap", "misaligned", "assert"};
    const int codes[] = {700, 719, 716, 710};
    while (how_ < 4 && kind != kinds[how_]) ++how_;
    if (how_ == 4) std::fprintf(stderr, "there is no fault %s\n", kind.c_str()), std::exit(2);
    code_ = codes[how_];
  }

  int run(const std::string& form) {
    struct one {
      const char* name;
      void (faults::*run)();
    };
    static constexpr one forms[] = {
        {"waited", &faults::waited},     {"returned", &faults::returned},  {"queued", &faults::queued},
        {"rested", &faults::rested},     {"late", &faults::late},          {"loading", &faults::loading},
        {"unproved", &faults::unproved}, {"loud", &faults::loud},          {"graph", &faults::graph},
        {"eight", &faults::eight},       {"eight-old", &faults::eight_old}};
    for (const one& f : forms)
      if (form == f.name) {
        (this->*f.run)();
        return 3;
      }
    std::fprintf(stderr, "there is no form %s\n", form.c_str());
    return 2;
  }

 private:
  void arm() const { g_.fault(("fault:gather=" + std::to_string(code_)).c_str()); }
  void prefill(int n) {
    STUCK_PREFILL;
    g_.many_busy(g_.stream, n, 20 * us);
  }
  /// With a good argument it does nothing.
  CUresult gather(CUstream s, bool bad, unsigned blocks = 1) {
    CUdeviceptr flag = bad ? g_.one() : g_.zero();
    void* p[] = {&flag, &how_};
    return g_.launch("gather", s, p, blocks);
  }
  void culprit(CUstream s, unsigned blocks = 1) {
    STUCK_DECODE;
    expect(g_, s, "kernel", "gather", "cuLaunchKernel");
    arm();
    must(gather(s, true, blocks), "cuLaunchKernel");
  }
  /// With 20 kernels behind it.
  void culprit_and_more() {
    culprit(g_.stream);
    {
      STUCK_PREFILL;
      for (int i = 0; i < 20 && g_.busy(g_.stream, 20 * us) == CUDA_SUCCESS; ++i) continue;
    }
    meet(g_.stream);
  }
  void meet(CUstream s) {
    CUresult r = CUDA_SUCCESS;
    CUevent done{};
    if (polls_) {
      CALL(cuEventCreate)(&done, CU_EVENT_DISABLE_TIMING);
      CALL(cuEventRecord)(done, s);
      while ((r = CALL(cuEventQuery)(done)) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
      CALL(cuMemFree)(g_.words);  // cleans up, without a look at the result
    } else {
      r = CALL(cuStreamSynchronize)(s);
    }
    std::printf("result %d\n", static_cast<int>(r));
    std::fflush(stdout);
  }

  void waited() {
    prefill(50);
    MUST(cuStreamSynchronize, g_.stream);
    culprit(g_.stream);
    meet(g_.stream);
  }
  /// The kernels before the culprit were not waited for, but their records have come.
  void returned() {
    prefill(50);
    pause_ms(300);
    culprit(g_.stream);
    meet(g_.stream);
  }
  void queued() {
    prefill(50);
    MUST(cuStreamSynchronize, g_.stream);
    culprit_and_more();
  }
  /// As queued, but with a pause instead of a wait for the kernels before the culprit.
  void rested() {
    prefill(50);
    pause_ms(300);
    culprit_and_more();
  }
  /// After a pause a step of 40 ms begins, and the culprit is at its end. Nobody waits for the kernels before the
  /// culprit.
  void late() {
    pause_ms(300);
    {
      STUCK_PREFILL;
      g_.many_busy(g_.stream, 200, 200 * us);
    }
    culprit_and_more();
  }
  /// In the middle of a step of 40 ms, while the driver loads another kernel. The loading may hold up cutrace's flush
  /// of CUPTI's records until the times of the work that ended meanwhile are lost.
  void loading() {
    const CUfunction other = gpu::load("busy");
    must(gather(g_.stream, false), "cuLaunchKernel");
    MUST(cuStreamSynchronize, g_.stream);
    pause_ms(300);
    {
      STUCK_PREFILL;
      g_.many_busy(g_.stream, 100, 200 * us);
    }
    culprit(g_.stream);
    {
      STUCK_PREFILL;
      for (int i = 0; i < 100; ++i) g_.busy(g_.stream, 200 * us);
      std::uint64_t ns = us;
      void* p[] = {&ns};
      CALL(cuLaunchKernel)(other, 1, 1, 1, 32, 1, 1, 0, g_.stream, p, nullptr);
    }
    meet(g_.stream);
  }
  /// Nothing proves that the kernels before it have ended.
  void unproved() {
    prefill(50);
    culprit(g_.stream);
    meet(g_.stream);
  }
  /// As unproved, but 1,024 threads fault: the driver prints a line for each that asserts, for more than ten
  /// milliseconds, and flushes wait until it has.
  void loud() {
    prefill(50);
    culprit(g_.stream, 32);
    {
      STUCK_PREFILL;
      for (int i = 0; i < 2 && g_.busy(g_.stream, 20 * us) == CUDA_SUCCESS; ++i) continue;
    }
    meet(g_.stream);
  }
  /// The seventh of ten nodes, after eight replays that go well.
  void graph() {
    CUdeviceptr flag = g_.word(0);
    void* p[] = {&flag, &how_};
    const CUgraphExec exec = g_.chain(10, 20 * us, "gather", p);
    {
      STUCK_PREFILL;
      for (int i = 0; i < 8; ++i) MUST(cuGraphLaunch, exec, g_.stream);
      MUST(cuMemsetD32Async, flag, 1, 1, g_.stream);
      MUST(cuStreamSynchronize, g_.stream);
    }
    STUCK_DECODE;
    expect(g_, g_.stream, "kernel", "gather", "cuGraphLaunch");
    arm();
    MUST(cuGraphLaunch, exec, g_.stream);
    CALL(cuGraphLaunch)(exec, g_.stream);
    meet(g_.stream);
  }
  void eight() { among_eight(0); }
  void eight_old() { among_eight(10000); }
  /// Seven threads keep streams of their own busy; on the eighth a kernel faults that ran `before` times.
  void among_eight(int before) {
    std::atomic<bool> over{false};
    std::vector<std::thread> others;
    for (int i = 0; i < 7; ++i)
      others.emplace_back([this, &over] {
        g_.use();
        const CUstream s = gpu::make_stream();
        STUCK_PREFILL;
        for (int n = 1; !over; ++n)
          if (g_.busy(s, 50 * us) != CUDA_SUCCESS || (n % 16 == 0 && CALL(cuStreamSynchronize)(s) != CUDA_SUCCESS))
            return;
      });
    pause_ms(200);
    prefill(20);
    for (int i = 0; i < before; ++i) {
      STUCK_PREFILL;
      must(gather(g_.stream, false), "cuLaunchKernel");
      if (i % 100 == 99) MUST(cuStreamSynchronize, g_.stream);
    }
    culprit(g_.stream);
    meet(g_.stream);
    over = true;
    for (std::thread& t : others) t.join();
  }

  gpu& g_;
  bool polls_;
  std::uint32_t how_ = 0;
  int code_ = 0;
};

}  // namespace stuck
