// SPDX-License-Identifier: Apache-2.0
// Sleeping and waking of a thread: who may wake it, and when.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cutrace/base/helper_thread.hpp>
#include <thread>

namespace helper_thread_test {

using cutrace::detail::wake_signal;
using std::chrono::milliseconds;

namespace {

/// How long a sleep of `ms` takes while another thread signals every few milliseconds.
milliseconds slept(std::uint32_t ms, bool rests, void (wake_signal::*signal)() noexcept) {
  wake_signal wake;
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      std::this_thread::sleep_for(milliseconds(5));
      (wake.*signal)();
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  wake.sleep(milliseconds(ms), rests);
  const auto end = std::chrono::steady_clock::now();
  over = true;
  other.join();
  return std::chrono::duration_cast<milliseconds>(end - begin);
}

}  // namespace

TEST_CASE(
    "a thread that rests (there is no work) is woken by each kind of signal, one that sleeps not by "
    "signal_if_resting") {
  const milliseconds soon(20000);
  CHECK(slept(30000, true, &wake_signal::signal_if_resting) < soon);
  CHECK(slept(30000, true, &wake_signal::signal_if_asleep) < soon);
  CHECK(slept(30000, true, &wake_signal::signal) < soon);
  CHECK(slept(30000, false, &wake_signal::signal_if_asleep) < soon);
  CHECK(slept(30000, false, &wake_signal::signal) < soon);
  CHECK(slept(200, false, &wake_signal::signal_if_resting) >= milliseconds(200));
}

TEST_CASE("a signal that comes before the sleep keeps it from beginning, one for those that are asleep does not") {
  wake_signal wake;
  const auto begin = std::chrono::steady_clock::now();
  wake.signal();
  wake.sleep(milliseconds(30000));
  CHECK(std::chrono::steady_clock::now() - begin < milliseconds(20000));
  wake.signal_if_asleep();
  wake.signal_if_resting();
  const auto again = std::chrono::steady_clock::now();
  wake.sleep(milliseconds(100), true);
  CHECK(std::chrono::steady_clock::now() - again >= milliseconds(100));
}

}  // namespace helper_thread_test
