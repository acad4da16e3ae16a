// SPDX-License-Identifier: Apache-2.0
// Which instance of a graph cutrace::graph_exec launches. A replay that is recorded node by node makes its instance
// slower for good (CUPTI 13.0, H200: 305 us before, 450 after), so only the second one, the twin, is recorded in that
// way:
//
//   CUTRACE_GRAPHS=graph   replays are one record each; GRAPH_TRACE is off for the launch of the second instance alone.
//                          No other thread launches or makes a graph meanwhile: it would be recorded by node, too, and
//                          a graph that is made while GRAPH_TRACE is off ends the program when it is replayed later.
//   windows, by node       the second instance is launched in windows, the first one between them
#pragma once

#include <cupti.h>

#include <chrono>
#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/process_state.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

class graph_twin {
 public:
  static twin_choice choose(twin_step step) noexcept {
    process_state& p = process_state::get();
    switch (step) {
      case twin_step::wanted:
        return wanted(p) ? twin_choice::twin : twin_choice::first;
      case twin_step::begin:
      case twin_step::begin_sampled:
        return begin(p, step == twin_step::begin_sampled);
      case twin_step::end:
        end(p);
        break;
    }
    return twin_choice::first;
  }
  /// Switching GRAPH_TRACE off and on was seen to work with CUPTI 13.0, the oldest release accepted here.
  static bool possible(std::uint32_t cupti_version) noexcept { return cupti_version >= 130000; }

 private:
  static bool wanted(const process_state& p) noexcept {
    return p.whole_graphs.load(std::memory_order_acquire) || p.node_windows.load(std::memory_order_acquire);
  }

  static twin_choice begin(process_state& p, bool sampled) noexcept {
    if (p.whole_graphs.load(std::memory_order_acquire))
      return sampled && node_level(p) ? twin_choice::twin : twin_choice::first;
    if (!p.node_windows.load(std::memory_order_acquire)) return twin_choice::first;
    p.graphs.enter();  // no window opens before twin_step::end
    return p.kernels_on.load(std::memory_order_acquire) ? twin_choice::twin : twin_choice::first_held;
  }

  static bool node_level(process_state& p) noexcept {
    if (!p.kernels_on.load(std::memory_order_acquire) || !p.switching.try_lock()) return false;
    const bool usable = p.whole_graphs.load(std::memory_order_acquire) && !p.fatal.load(std::memory_order_relaxed) &&
                        !p.exiting.load(std::memory_order_acquire);
    if (usable && p.graphs.try_hold(std::chrono::milliseconds(2))) {
      if (p.api.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE) == CUPTI_SUCCESS) return true;
      p.graphs.release();
    }
    p.switching.unlock();
    return false;
  }

  static void end(process_state& p) noexcept {
    if (!p.graphs.holds()) return p.graphs.leave();
    if (!p.graphs.still_alone() || p.exiting.load(std::memory_order_acquire) ||
        p.api.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE) != CUPTI_SUCCESS)
      stay_at_nodes(p);
    p.graphs.release();
    p.switching.unlock();
  }

  static void stay_at_nodes(process_state& p) noexcept {
    p.whole_graphs.store(false, std::memory_order_release);
    if (event_writer* w = p.writer.load(std::memory_order_acquire))
      w->report("cupti",
                "graphs are recorded node by node from here on: a launch that was recorded so took longer than other "
                "threads could wait, or CUPTI could not be switched back");
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
