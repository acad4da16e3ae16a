// SPDX-License-Identifier: Apache-2.0
// Keeps calls that launch or make executable graphs apart from the moments in which the recording of graphs is changed
// (graph_twin.hpp, recording_switch.hpp): many calls are inside at once, or one holder is alone. Nobody waits for
// long: a holder that finds others inside gives up, and a call that is kept out for `patience` goes in all the same,
// which still_alone() reports.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cutrace/config.hpp>
#include <thread>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

class graph_gate {
 public:
  /// Around a call, on its thread. Entering twice is entering once, so that a call whose end is never reported does no
  /// harm.
  void enter() noexcept {
    slot& s = mine();
    if (s.inside != nullptr || s.holds) return;
    users_.fetch_add(1);
    if (CUTRACE_UNLIKELY(kept_out(state_.load()))) wait_until_open();
    s.inside = this;
  }
  void leave() noexcept {
    slot& s = mine();
    if (s.inside == nullptr) return;
    s.inside = nullptr;
    users_.fetch_sub(1);
  }

  /// True: the calling thread is alone, and calls `release` later. False: others stayed inside for `limit`, there is a
  /// holder already, or the calling thread itself is inside.
  bool try_hold(std::chrono::microseconds limit) noexcept {
    state_value expected = open;
    if (mine().inside != nullptr || !state_.compare_exchange_strong(expected, held)) return false;
    const clock::time_point until = clock::now() + limit;
    while (users_.load() != 0) {
      if (clock::now() < until) {
        std::this_thread::yield();
        continue;
      }
      state_.store(open);
      return false;
    }
    return mine().holds = true;
  }
  bool holds() const noexcept { return mine().holds; }

  /// True: no call came in by force, and none will until `release`. False: one did.
  bool still_alone() noexcept {
    state_value expected = held;
    return state_.compare_exchange_strong(expected, leaving);
  }
  void release() noexcept {
    mine().holds = false;
    state_.store(open);
  }

 private:
  using clock = std::chrono::steady_clock;
  /// Limited, since a launch may wait for the GPU, and the GPU for a thread that is kept out here.
  static constexpr std::chrono::milliseconds patience{100};
  enum state_value : std::uint32_t { open, held, forced, leaving };
  static bool kept_out(state_value s) noexcept { return s == held || s == leaving; }

  struct slot {
    graph_gate* inside = nullptr;
    bool holds = false;
    ~slot() {
      if (inside != nullptr) inside->users_.fetch_sub(1);
      inside = nullptr;
    }
  };
  static slot& mine() noexcept {
    static thread_local slot s;
    return s;
  }

  CUTRACE_NOINLINE void wait_until_open() noexcept {
    const clock::time_point until = clock::now() + patience;
    for (;;) {
      users_.fetch_sub(1);
      while (kept_out(state_.load())) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        if (clock::now() < until) continue;
        state_value expected = held;
        state_.compare_exchange_strong(expected, forced);
      }
      users_.fetch_add(1);
      if (!kept_out(state_.load())) return;
    }
  }

  std::atomic<std::uint32_t> users_{0};
  std::atomic<state_value> state_{open};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
