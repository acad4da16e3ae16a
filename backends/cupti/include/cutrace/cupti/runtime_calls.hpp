// SPDX-License-Identifier: Apache-2.0
// Which function of the runtime API the calling thread is in: the outermost one, which the program called. The events
// of driver calls made in it give its name in a field, beside the driver function's. Runtime functions get no events:
// they would show each call twice.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <cutrace/cupti/process_state.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

struct runtime_calls {
  /// Called before the callbacks are switched on. Each period in which they are on has a number, 0 stands for off: a
  /// thread may have left a function while they were off, so functions entered in an earlier period do not count.
  static void begin(process_state& p) noexcept {
    if (++p.runtime_times == 0) ++p.runtime_times;
    p.runtime_names.store(p.runtime_times, std::memory_order_relaxed);
  }
  static void end(process_state& p) noexcept { p.runtime_names.store(0, std::memory_order_relaxed); }

  /// A function may be entered before the callbacks are on and left after that: then nothing is open.
  static void on_call(const process_state& p, CUpti_CallbackId cbid, const void* data) noexcept {
    const std::uint32_t now = p.runtime_names.load(std::memory_order_relaxed);
    if (now == 0 || cbid >= process_state::function_limit) return;
    open_call& call = of_thread();
    if (call.time != now) call = {now, 0, 0};
    if (static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_ENTER) {
      if (call.depth++ == 0) call.function = cbid;
    } else if (call.depth != 0 && --call.depth == 0) {
      call.function = 0;
    }
  }

  /// Callback id of the runtime function that the thread is in, 0: none. `now`: process_state::runtime_names.
  static std::uint32_t current(std::uint32_t now) noexcept {
    const open_call& call = of_thread();
    return call.time == now ? call.function : 0;
  }

 private:
  struct open_call {
    std::uint32_t time, depth, function;
  };
  static open_call& of_thread() noexcept {
    static thread_local open_call call{0, 0, 0};
    return call;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
