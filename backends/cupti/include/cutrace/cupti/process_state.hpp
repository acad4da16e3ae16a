// SPDX-License-Identifier: Apache-2.0
// What outlives a session because CUPTI keeps it: the library, the activity buffers, the clock, and the writer for
// which its callbacks work.
#pragma once

#include <unistd.h>  // getpid

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/buffers.hpp>
#include <cutrace/cupti/call_joins.hpp>
#include <cutrace/cupti/call_recipe.hpp>
#include <cutrace/cupti/cupti_clock.hpp>
#include <cutrace/cupti/decode_context.hpp>
#include <cutrace/cupti/graph_gate.hpp>
#include <cutrace/cupti/library.hpp>
#include <mutex>
#include <new>
#include <thread>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

/// What CUPTI keeps for the life of the process, and so do we: the library, the buffers, the registered callbacks.
struct alignas(64) process_state {
  static constexpr std::uint32_t function_limit = 4096;

  // One cache line, which each callback reads.
  std::atomic<event_writer*> writer{nullptr};      ///< null between sessions; the object itself lives on
  std::atomic<std::uint32_t> overflow_wait_us{0};  ///< 0: calls never wait for buffers
  /// 0: calls carry no name of a runtime function; else the value of runtime_times (runtime_calls.hpp).
  std::atomic<std::uint32_t> runtime_names{0};
  /// cutrace_call_joins (call_joins.hpp), called at the beginning of each recorded call with CUPTI's correlation id;
  /// null: not wanted. The library that holds it stays loaded.
  std::atomic<call_joins_function> call_joins{nullptr};
  std::atomic<decode_context*> decoder{nullptr};    ///< of the running session
  std::atomic<event_writer*> last_writer{nullptr};  ///< of the newest session, for what is found out after its end
  std::atomic<bool> fatal{false};                   ///< CUPTI has met an error that ended CUPTI
  std::atomic<bool> faulted{false};                 ///< a call returned an error that makes its context unusable
  std::atomic<bool> forcing{false};                 ///< a forced flush is at work: what comes back may be unfinished
  std::atomic<bool> exiting{false};                 ///< exit handlers run
  std::uint32_t runtime_times = 0;                  ///< how often `runtime_names` has been switched on
  tick_scale scale;                                 ///< of ticks, for callbacks::timestamp

  call_recipe recipes[function_limit];  ///< by callback id

  library lib;
  functions api;
  buffer_pool buffers;
  std::uint32_t version = 0;
  std::atomic<std::uint64_t> refused{0};     ///< buffer requests that found none
  std::atomic<std::uint32_t> completing{0};  ///< threads that hand a buffer back, CUPTI's own among them
  std::atomic<std::uint64_t> flushes{0};     ///< so far; after each one threads get a new buffer
  /// Since when GPU work has named a place that is not described, CLOCK_MONOTONIC; 0: there is none (late_places.hpp).
  std::atomic<std::uint64_t> places_wait_since_ns{0};
  std::atomic<bool> buffer_a_thread{false};  ///< each thread has a buffer of its own; else all share one
  bool clock_registered = false;
  bool kernels_left_on = false;  ///< CONCURRENT_KERNEL was not switched off at the end of a session
  std::mutex switching;          ///< held while CUPTI is switched off and on
  pid_t process = 0;             ///< of the newest session
  cupti_clock clock;             ///< of CUPTI, where it does not take ours

  graph_gate graphs;                      ///< for calls with call_recipe::uses_graph_gate
  std::atomic<bool> whole_graphs{false};  ///< GRAPH_TRACE is on, except while a twin is launched (graph_twin.hpp)
  std::atomic<bool> node_windows{false};  ///< the session records in windows, graphs by node
  std::atomic<bool> kernels_on{false};

  /// Runs before libcupti's exit handlers: once those have run, switching CUPTI would crash the program. A thread that
  /// hangs while it switches CUPTI must not hold up the exit for more than two seconds. A forked child has no session,
  /// and the thread that may have held `switching` does not exist in it.
  void begin_exit() {
    if (::getpid() != process) return;
    for (int i = 0; i < 2000; ++i) {
      if (switching.try_lock()) {
        exiting.store(true, std::memory_order_release);
        return switching.unlock();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    exiting.store(true, std::memory_order_release);
  }

  static process_state& get() {
    static process_state* state = ::new (place()) process_state();  // never destroyed
    return *state;
  }
  /// The same object, for CUPTI's callbacks, which come after the first `get`: no guard to check, no pointer to follow.
  static process_state& made() noexcept { return *std::launder(static_cast<process_state*>(place())); }

 private:
  static void* place() noexcept {
    alignas(64) static unsigned char bytes[sizeof(process_state)];
    return bytes;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
