// SPDX-License-Identifier: Apache-2.0
// What of CUPTI is on, and how it goes off and on again between the windows of a session that samples. The
// subscription, records that describe devices, contexts and streams, and whole graphs stay on; cuptiFinalize is never
// called, since it crashes a program whose other threads call CUDA meanwhile (seen with CUPTI 13.0).
#pragma once

#include <cupti.h>

#include <chrono>
#include <cstdint>
#include <cutrace/cupti/kinds.hpp>
#include <cutrace/cupti/process_state.hpp>
#include <cutrace/cupti/runtime_calls.hpp>
#include <thread>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

class recording_switch {
 public:
  void clear() noexcept {
    forget_kinds();
    calls_rest_ = false;
    calls_.clear();
    runtime_calls_.clear();
  }
  void forget_kinds() noexcept { kinds_ = on_ = 0; }
  void add_kind(const kind& k) noexcept {
    kinds_ |= 1u << k.bit;
    on_ |= 1u << k.bit;
  }
  void add_call(std::uint32_t cbid) { calls_.push_back(cbid); }
  void add_runtime_call(std::uint32_t cbid) { runtime_calls_.push_back(cbid); }

  bool is_on(CUpti_ActivityKind id) const noexcept {
    for (const kind& k : kinds)
      if (k.id == id && k.enabled(on_)) return true;
    return false;
  }
  bool any_kind() const noexcept { return kinds_ != 0; }
  /// Functions of the driver that have a callback.
  std::uint32_t calls() const noexcept { return static_cast<std::uint32_t>(calls_.size()); }

  /// Begins or ends a window. Callbacks of calls go on first and off last, so that no GPU work is recorded whose call
  /// was not seen; in between there is some time for calls under way. Returns the last failure; what failed is tried
  /// again at the next window. Not `with_kinds`: calls alone, where a client of the program takes the records.
  CUptiResult set(process_state& p, CUpti_SubscriberHandle subscriber, bool on, bool with_kinds) {
    CUptiResult why = CUPTI_SUCCESS;
    const auto note = [&why](CUptiResult r) { why = r != CUPTI_SUCCESS ? r : why; };
    if (on && calls_rest_) {
      if (!runtime_calls_.empty()) runtime_calls::begin(p);
      for (const std::uint32_t cbid : runtime_calls_)
        note(p.api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, cbid));
      for (const std::uint32_t cbid : calls_)
        note(p.api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, cbid));
    }
    std::this_thread::sleep_for(on ? before_window : after_window);
    calls_rest_ = !on;
    // Waits for launches of a graph's first instance (graph_twin.hpp), but not for ever: an instance whose launch takes
    // longer may be recorded by node, after which its launches stay slower.
    const bool alone = on && p.node_windows && p.graphs.try_hold(std::chrono::milliseconds(100));
    for (const kind& k : kinds) {
      if (!with_kinds || !k.enabled(kinds_)) continue;
      if (k.enabled(on_) != on && k.may_rest(p.version)) note(turn(p, k, on));
      // While records of kernels stay on, so do callbacks: a kernel launched between windows is known by its call.
      if (k.enabled(on_) && k.group == kind::of(record_group::kernel)) calls_rest_ = false;
    }
    p.kernels_on.store(is_on(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), std::memory_order_release);
    if (alone) p.graphs.release();
    if (!calls_rest_) return why;
    note(p.api.cuptiEnableDomain(0, subscriber, CUPTI_CB_DOMAIN_DRIVER_API));
    // Replays in later windows run what an update put into their graph in between.
    for (const std::uint32_t cbid : calls_)
      if ((p.recipes[cbid].traits() & call_recipe::updates_graph) != 0)
        note(p.api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, cbid));
    if (runtime_calls_.empty()) return why;
    runtime_calls::end(p);
    note(p.api.cuptiEnableDomain(0, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
    return why;
  }

  /// Switches all kinds off for good. A kind that must not be switched off stays on, which costs time and nothing else.
  CUptiResult end(process_state& p) {
    CUptiResult why = CUPTI_SUCCESS;
    for (const kind& k : kinds) {
      if (!k.enabled(on_)) continue;
      if (!k.may_end(p.version)) {
        p.kernels_left_on = true;
        continue;
      }
      const CUptiResult r = turn(p, k, false);
      if (r != CUPTI_SUCCESS) why = r;
    }
    return why;
  }

 private:
  /// Most calls that make GPU work take microseconds, a large graph's launch one millisecond.
  static constexpr std::chrono::milliseconds before_window{1}, after_window{5};

  CUptiResult turn(process_state& p, const kind& k, bool on) {
    const CUptiResult r = on ? p.api.cuptiActivityEnable(k.id) : p.api.cuptiActivityDisable(k.id);
    if (r == CUPTI_SUCCESS) on_ ^= 1u << k.bit;
    return r;
  }

  unsigned kinds_ = 0;  ///< that were chosen, a bit each
  unsigned on_ = 0;     ///< that are on now
  std::vector<std::uint32_t> calls_, runtime_calls_;
  bool calls_rest_ = false;  ///< callbacks of calls are off, between windows
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
