// SPDX-License-Identifier: Apache-2.0
// Programs whose cause of idle time, or of one slow request, is known: `planted_truths NAME` runs one of them under a
// session that the environment configures and prints "line STAGE N" for the markers that planted_truths.sh asks about.
// Runs on the stand-in driver and, as it is, on a GPU.
#include <cuda.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cutrace/context.hpp>
#include <cutrace/cutrace.hpp>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../../support/gpu_program.hpp"

namespace {

using test_support::gpu_device;
using us = std::chrono::microseconds;

void busy(us length) {
  const auto until = std::chrono::steady_clock::now() + length;
  while (std::chrono::steady_clock::now() < until) continue;
}

constexpr int steps = 12;
constexpr us long_work{4000};

/// A stage whose line the script asks for.
#define PLANTED(name)                          \
  std::printf("line " name " %d\n", __LINE__); \
  CUTRACE_STAGE(name)
#define PLANTED_FOR(name, request)             \
  std::printf("line " name " %d\n", __LINE__); \
  CUTRACE_STAGE(name, request)

struct program {
  inline static int to_other = -1, from_other = -1;  ///< pipes

  gpu_device gpu;
  CUstream stream{};
  CUdeviceptr memory{};
  std::vector<char> pageable = std::vector<char>(std::size_t{32} << 20);

  program() {
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    DO(cuMemAlloc, &memory, pageable.size());
  }
  void kernel(us length) { gpu.spin(stream, static_cast<std::uint64_t>(length.count()) * 1000); }
  void wait() { DO(cuStreamSynchronize, stream); }
  void step(us length = us(300)) {
    CUTRACE_STAGE("decode");
    kernel(length);
    wait();
  }

  // Why the GPU is idle.

  /// The code before a launch is another stage's.
  void other_stage() {
    for (int i = 0; i < steps; ++i) {
      step();
      PLANTED("prepare_batch");
      busy(long_work);
    }
  }
  void same_stage() {
    for (int i = 0; i < steps; ++i) {
      PLANTED("decode");
      busy(long_work);
      kernel(us(300));
      wait();
    }
  }
  void nested_stage() {
    for (int i = 0; i < steps; ++i) {
      CUTRACE_STAGE("step");
      step();
      PLANTED("tokenize");
      busy(long_work);
    }
  }
  void outer_stage() {
    for (int i = 0; i < steps; ++i) {
      PLANTED("step");
      step();
      { CUTRACE_STAGE("log"); }
      busy(long_work);
    }
  }
  /// The longest single stage is not the one that takes most in all.
  void many_short() {
    for (int i = 0; i < steps; ++i) {
      step();
      {
        CUTRACE_STAGE("mask");
        busy(us(1200));
      }
      for (int k = 0; k < 8; ++k) {
        PLANTED("pack");
        busy(us(500));
      }
    }
  }
  /// The launching thread adopted a stage and works in it.
  void adopted_stage() {
    for (int i = 0; i < steps; ++i) {
      step();
      PLANTED("serve");
      const cutrace::context here = cutrace::context::capture();
      std::thread([&] {
        const cutrace::adopted_stage in(here);
        gpu.use();
        busy(long_work);
        kernel(us(300));
        wait();
      }).join();
    }
  }
  /// The launching thread waits for another one, in no stage of its own.
  void other_thread() {
    std::mutex m;
    std::condition_variable changed;
    int asked = 0, done = 0;
    std::thread worker([&] {
      for (int i = 1; i <= steps; ++i) {
        std::unique_lock<std::mutex> hold(m);
        changed.wait(hold, [&] { return asked >= i; });
        PLANTED("detokenize");
        busy(long_work);
        done = i;
        changed.notify_all();
      }
    });
    for (int i = 1; i <= steps; ++i) {
      step();
      std::unique_lock<std::mutex> hold(m);
      asked = i;
      changed.notify_all();
      changed.wait(hold, [&] { return done >= i; });
    }
    worker.join();
  }
  /// A lock that another thread holds: the stage that waits for it is to blame, the other one is listed.
  void lock() {
    std::mutex m;
    std::condition_variable changed;
    int held = 0, left = 0;
    std::thread other([&] {
      for (int i = 1; i <= steps; ++i) {
        std::unique_lock<std::mutex> hold(m);
        held = i;
        changed.notify_all();
        {
          CUTRACE_STAGE("checkpoint");
          busy(long_work);
        }
        hold.unlock();
        while (true) {
          const std::lock_guard<std::mutex> look(m);
          if (left >= i) break;
        }
      }
    });
    for (int i = 1; i <= steps; ++i) {
      step();
      while (true) {
        {
          const std::unique_lock<std::mutex> look(m, std::try_to_lock);
          if (!look.owns_lock() || held >= i) break;
        }
        std::this_thread::yield();
      }
      PLANTED("acquire");
      const std::lock_guard<std::mutex> hold(m);
      left = i;
    }
    other.join();
  }
  /// A span is no sign of the host at work.
  void span() {
    for (int i = 0; i < steps; ++i) {
      step();
      std::printf("line queue_wait %d\n", __LINE__ + 1);
      auto waiting = CUTRACE_SPAN("queue_wait", i);
      std::this_thread::sleep_for(long_work);
      waiting.end();
    }
  }
  void synchronising() {
    for (int i = 0; i < 2000; ++i) {
      PLANTED("decode");
      kernel(us(100));
      wait();
    }
  }
  void blocking_copies() {
    for (int i = 0; i < 2000; ++i) {
      PLANTED("decode");
      gpu.spin(nullptr, 100000);
      DO(cuMemcpyDtoH, pageable.data(), memory, 64);
    }
  }
  void pageable_copies() {
    for (int i = 0; i < steps; ++i) {
      PLANTED("load");
      DO(cuMemcpyHtoDAsync, memory, pageable.data(), pageable.size(), stream);
      kernel(us(300));
      wait();
    }
  }

  // Why request 13 of 40 is slow.

  struct fault {
    us queue{100}, own{50}, hole{0}, kernel{300};
    bool copies = false, allocates = false, prefill_in_the_way = false, checkpoint = false, preempted = false,
         other_process = false;
  };
  void other_process_works() {
    char byte = 1;
    must_be(write(to_other, &byte, 1) == 1 && read(from_other, &byte, 1) == 1);
  }
  static void must_be(bool condition) {
    if (!condition) std::perror("planted_truths"), std::exit(1);
  }
  /// Another process, which asks to be served first, takes this thread's processor for 20 ms.
  void preempt() {
    cpu_set_t before, one;
    sched_getaffinity(0, sizeof(before), &before);
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
    sched_setaffinity(0, sizeof(one), &one);
    const auto until = std::chrono::steady_clock::now() + us(20000);
    if (const pid_t child = fork(); child == 0) {
      const sched_param first{1};
      sched_setscheduler(0, SCHED_FIFO, &first);
      while (std::chrono::steady_clock::now() < until) continue;
      _exit(0);
    } else {
      while (std::chrono::steady_clock::now() < until) continue;
      waitpid(child, nullptr, 0);
    }
    sched_setaffinity(0, sizeof(before), &before);
  }
  void serve(std::uint64_t id, const fault& f) {
    if (f.queue.count() != 0) {
      auto waiting = CUTRACE_SPAN("queue_wait", id);
      std::this_thread::sleep_for(f.queue);
      waiting.end();
    }
    if (f.prefill_in_the_way) {
      PLANTED_FOR("prefill_long", 7777);
      kernel(us(20000));
    }
    if (f.other_process) other_process_works();
    {
      PLANTED_FOR("prefill", id);
      busy(f.own);
      if (f.preempted) preempt();
      if (f.allocates)
        for (const auto until = std::chrono::steady_clock::now() + us(20000);
             std::chrono::steady_clock::now() < until;) {
          CUdeviceptr p{};
          DO(cuMemAlloc, &p, 1 << 20);
          DO(cuMemFree, p);
        }
      if (f.copies) DO(cuMemcpyHtoDAsync, memory, pageable.data(), pageable.size(), stream);
      kernel(f.kernel);
      wait();
    }
    if (f.checkpoint)
      std::thread([&] {
        CUTRACE_STAGE("checkpoint");
        busy(f.hole);
      }).join();
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t batch[] = {id, id + 100000};
      CUTRACE_STAGE_BATCH("decode_batch", batch, 2);
      kernel(us(100));
      wait();
    }
  }
  void requests(const fault& planted) {
    for (std::uint64_t id = 1; id <= 40; ++id) serve(id, id == 13 ? planted : fault());
  }
  void slow_queue() {
    fault f;
    f.queue = us(20000);
    requests(f);
  }
  void slow_code() {
    fault f;
    f.own = us(20000);
    requests(f);
  }
  void slow_kernel() {
    fault f;
    f.kernel = us(20000);
    requests(f);
  }
  void slow_hole() {
    fault f;
    f.hole = us(20000);
    f.checkpoint = true;
    requests(f);
  }
  void slow_prefill() {
    fault f;
    f.prefill_in_the_way = true;
    requests(f);
  }
  void slow_preempted() {
    fault f;
    f.preempted = true;
    requests(f);
  }
  void slow_other_process() {
    fault f;
    f.other_process = true;
    requests(f);
  }
  void slow_allocation() {
    fault f;
    f.allocates = true;
    requests(f);
  }
  void slow_copy() {
    fault f;
    f.copies = true;
    requests(f);
  }
};

/// Before CUDA starts: a process that traces itself into other.jsonl and gives the GPU 40 ms of work when it is asked
/// to.
pid_t start_other() {
  int to[2], from[2];
  program::must_be(pipe(to) == 0 && pipe(from) == 0);
  const pid_t child = fork();
  program::must_be(child >= 0);
  close(to[child == 0 ? 1 : 0]);
  close(from[child == 0 ? 0 : 1]);
  program::to_other = to[1];
  program::from_other = from[0];
  if (child != 0) return child;
  setenv("CUTRACE_SINKS", "jsonl:other.jsonl", 1);
  {
    cutrace::session trace;
    program p;
    p.step();
    char byte = 0;
    if (read(to[0], &byte, 1) == 1) {
      CUTRACE_STAGE("training");
      for (int i = 0; i < 40; ++i) p.kernel(us(1000));
      program::must_be(write(from[1], &byte, 1) == 1);
      p.wait();
    }
  }
  std::exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (program::*)()> all = {
      {"other_stage", &program::other_stage},
      {"same_stage", &program::same_stage},
      {"nested_stage", &program::nested_stage},
      {"outer_stage", &program::outer_stage},
      {"many_short", &program::many_short},
      {"adopted_stage", &program::adopted_stage},
      {"other_thread", &program::other_thread},
      {"lock", &program::lock},
      {"span", &program::span},
      {"synchronising", &program::synchronising},
      {"blocking_copies", &program::blocking_copies},
      {"pageable_copies", &program::pageable_copies},
      {"slow_queue", &program::slow_queue},
      {"slow_code", &program::slow_code},
      {"slow_kernel", &program::slow_kernel},
      {"slow_hole", &program::slow_hole},
      {"slow_prefill", &program::slow_prefill},
      {"slow_preempted", &program::slow_preempted},
      {"slow_other_process", &program::slow_other_process},
      {"slow_allocation", &program::slow_allocation},
      {"slow_copy", &program::slow_copy},
  };
  const auto found = all.find(argc > 1 ? argv[1] : "");
  if (found == all.end()) {
    for (const auto& one : all) std::printf("%s\n", one.first.c_str());
    return 2;
  }
  if (gpu_device::is_standin()) std::printf("stand-in\n");
  const pid_t other = found->second == &program::slow_other_process ? start_other() : 0;
  {
    cutrace::session trace;
    program p;
    (p.*found->second)();
  }
  if (other != 0) close(program::to_other), waitpid(other, nullptr, 0);
}
