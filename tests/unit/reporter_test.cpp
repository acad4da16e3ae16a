// SPDX-License-Identifier: Apache-2.0
// Run-time errors: each distinct line once, and a handler whose owner goes while another thread is inside it.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cutrace/collect/reporter.hpp>
#include <string>
#include <thread>

namespace reporter_test {

using cutrace::detail::reporter;

TEST_CASE("each distinct line is reported once, and kept as a note") {
  reporter r;
  int reported = 0;
  r.set_handler([](const char*, const char*, void* user) { ++*static_cast<int*>(user); }, &reported);
  for (int i = 0; i < 3; ++i) r.report("sink", "the disk is full");
  r.report("sink", "the disk is slow");
  r.report("sink", "for the files only", false);
  CHECK(reported == 2);
  CHECK(r.count_of("sink") == 3);
  for (int i = 0; i < 100; ++i) r.report("flood", std::to_string(i).c_str());
  CHECK(r.notes().size() == 32);
}

TEST_CASE("a handler is not taken away while another thread is inside it") {
  struct state {
    std::atomic<bool> entered{false}, left{false};
  } s;
  reporter r;
  r.set_handler(
      [](const char*, const char*, void* user) {
        state& mine = *static_cast<state*>(user);
        mine.entered = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        mine.left = true;
      },
      &s);
  std::thread reporting([&r] { r.report("sink", "slow to report"); });
  while (!s.entered) std::this_thread::yield();
  r.set_handler(nullptr, nullptr);
  CHECK(s.left);
  reporting.join();
}

TEST_CASE("a handler may take itself away") {
  reporter r;
  r.set_handler(
      [](const char*, const char*, void* user) { static_cast<reporter*>(user)->set_handler(nullptr, nullptr); }, &r);
  r.report("sink", "once");
  CHECK(r.count_of("sink") == 1);
}

}  // namespace reporter_test
