// SPDX-License-Identifier: Apache-2.0
// The thread that calls backends: who asks learns what became of his own request, and windows open for all backends.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cutrace/run/backend_pump.hpp>
#include <thread>
#include <vector>

namespace backend_pump_test {

using cutrace::detail::backend_pump;
using cutrace::detail::reporter;
using cutrace::detail::sampling;

namespace {

struct silent_backend : cutrace::backend {
  const char* name() const noexcept override { return "silent"; }
  cutrace::backend_status start(cutrace::event_writer&) override { return {}; }
  bool flush(std::uint32_t) noexcept override { return true; }
  bool stop(std::uint32_t) noexcept override { return true; }
};

/// Its restart takes until it may go on.
struct slow_backend : silent_backend {
  std::atomic<bool> rests{false}, restarts{false}, goes_on{false};
  void suspend() noexcept override { rests = true; }
  void restart() noexcept override {
    restarts = true;
    while (!goes_on) std::this_thread::yield();
  }
};

/// Of a thousand flushes that all fail (`unfinished`) or are all served: those with the answer of the other kind, which
/// four threads ask for meanwhile.
int mistaken_flushes(bool unfinished) {
  struct : silent_backend {
    bool flush_unfinished(std::uint32_t) noexcept override { return false; }
  } gpu;
  reporter errors;
  backend_pump pump(errors, 1);
  pump.add(&gpu, false, 0);
  std::atomic<bool> over{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i)
    others.emplace_back([&] {
      while (!over) pump.flush(60000, !unfinished);
    });
  int mistaken = 0;
  for (int i = 0; i < 1000; ++i) mistaken += pump.flush(60000, unfinished) == unfinished;
  over = true;
  for (std::thread& t : others) t.join();
  CHECK(pump.flush(60000));
  CHECK(pump.stop(60000));
  return mistaken;
}

}  // namespace

TEST_CASE("backend pump: a flush that failed is never taken for the next one, which did not") {
  CHECK(mistaken_flushes(true) == 0);
}

TEST_CASE("backend pump: a flush that was served is never taken for another one, which was not") {
  CHECK(mistaken_flushes(false) == 0);
}

TEST_CASE("backend pump: a backend that is added while a window opens records in it") {
  slow_backend slow;
  struct : silent_backend {
    bool records = true;
    void suspend() noexcept override { records = false; }
    void restart() noexcept override { records = true; }
  } added;
  reporter errors;
  backend_pump pump(errors, 1000);
  pump.add(&slow, false, 0);
  sampling windows;
  REQUIRE(sampling::parse("requests", windows));
  pump.sample(windows, [](bool) {});
  while (!slow.rests) std::this_thread::yield();
  std::thread opens([&pump] { CHECK(pump.open_window(60000)); });
  while (!slow.restarts) std::this_thread::yield();
  pump.add(&added, false, 0);
  slow.goes_on = true;
  opens.join();
  CHECK(added.records);
  pump.close_window();
  CHECK(pump.stop(60000));
}

TEST_CASE(
    "backend pump: a backend that is added while a window opens, and hangs, holds up nobody beyond the deadline") {
  slow_backend first, added;
  reporter errors;
  backend_pump pump(errors, 1000);
  pump.add(&first, false, 0);
  sampling windows;
  REQUIRE(sampling::parse("requests", windows));
  pump.sample(windows, [](bool) {});
  while (!first.rests) std::this_thread::yield();
  CHECK_FALSE(pump.open_window(1));
  while (!first.restarts) std::this_thread::yield();
  pump.add(&added, false, 0);
  first.goes_on = true;
  while (!added.restarts) std::this_thread::yield();
  std::atomic<bool> returned{false};
  std::thread asks([&] {
    CHECK_FALSE(pump.flush(1));
    returned = true;
  });
  for (int i = 0; i < 2000 && !returned; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(returned);
  added.goes_on = true;
  asks.join();
  pump.close_window();
  CHECK(pump.stop(60000));
}

}  // namespace backend_pump_test
