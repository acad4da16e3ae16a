// SPDX-License-Identifier: Apache-2.0
// Launches are kept apart from the moments in which the way of recording graphs is changed.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cutrace/cupti/graph_gate.hpp>
#include <thread>
#include <vector>

namespace cupti_graph_gate_test {

using cutrace::cupti::graph_gate;
using namespace std::chrono_literals;

namespace {

/// Runs `action` on a new thread, which has ended, and so left any gate, when this returns.
template <class Action>
void elsewhere(Action action) {
  std::thread t(action);
  t.join();
}

}  // namespace

TEST_CASE("a holder is alone, whatever others do") {
  graph_gate gate;
  std::atomic<int> inside{0}, together{0}, held{0}, entered{0};
  std::atomic<bool> end{false};
  std::vector<std::thread> users;
  for (int i = 0; i < 3; ++i)
    users.emplace_back([&] {
      while (!end) {
        gate.enter();
        ++inside;
        ++entered;
        std::this_thread::yield();
        --inside;
        gate.leave();
      }
    });
  while (held < 200 || entered < 200) {
    if (!gate.try_hold(2ms)) continue;
    bool others = inside.load() != 0;
    std::this_thread::yield();
    others = others || inside.load() != 0;
    // On a busy machine this thread may lose its processor for longer than the others' patience.
    if (gate.still_alone()) together += others ? 1 : 0, ++held;
    gate.release();
  }
  end = true;
  for (std::thread& t : users) t.join();
  CHECK(together == 0);
}

TEST_CASE("a holder gives up when somebody stays inside, and a second one at once") {
  graph_gate gate;
  gate.enter();
  elsewhere([&] {
    CHECK_FALSE(gate.try_hold(1ms));
    CHECK_FALSE(gate.holds());
  });
  CHECK_FALSE(gate.try_hold(1ms));  // this thread is inside, too
  gate.leave();
  REQUIRE(gate.try_hold(1ms));
  elsewhere([&] { CHECK_FALSE(gate.try_hold(1ms)); });
  gate.release();
  elsewhere([&] {
    CHECK(gate.try_hold(1ms));
    gate.release();
  });
}

TEST_CASE("who is kept out for long goes in, and the holder learns of it") {
  graph_gate gate;
  REQUIRE(gate.try_hold(1ms));
  elsewhere([&] {
    gate.enter();
    gate.leave();
  });
  CHECK_FALSE(gate.still_alone());
  gate.release();
  REQUIRE(gate.try_hold(1ms));  // as if nothing had been
  CHECK(gate.still_alone());
  gate.release();
}

TEST_CASE("nobody comes in by force while the holder leaves") {
  graph_gate gate;
  REQUIRE(gate.try_hold(1ms));
  REQUIRE(gate.still_alone());
  std::atomic<bool> in{false};
  std::thread late([&] {
    gate.enter();
    in = true;
    gate.leave();
  });
  std::this_thread::sleep_for(200ms);
  CHECK_FALSE(in);
  gate.release();
  late.join();
  CHECK(in);
}

TEST_CASE("calls that nest, calls whose end is never reported, and threads that die in one") {
  graph_gate gate;
  elsewhere([&] { gate.enter(); });  // its end was not reported
  REQUIRE(gate.try_hold(1ms));
  gate.enter();  // the holder's own launch
  CHECK(gate.still_alone());
  gate.leave();
  gate.release();
  gate.enter();
  gate.enter();
  gate.leave();
  elsewhere([&] {
    CHECK(gate.try_hold(1ms));
    gate.release();
  });
  gate.leave();  // of a call that began before callbacks were on
  CHECK(gate.try_hold(1ms));
  gate.release();
}

}  // namespace cupti_graph_gate_test
