// SPDX-License-Identifier: Apache-2.0
// The thread that compresses: blocks in order, a bound on what waits, and failures that reach the one who hands over.
#include <doctest/doctest.h>

#include <atomic>
#include <cutrace/output/block_worker.hpp>
#include <stdexcept>
#include <string>
#include <thread>

namespace block_worker_test {

using cutrace::detail::block_worker;

TEST_CASE("block worker: all blocks, in order, and the memory of old ones comes back") {
  std::string all;
  std::string expected;
  const block_worker::owner worker(new block_worker([&all](const std::string& block) { all += block; }));
  std::string block;
  for (int i = 0; i < 1000; ++i) {
    block += std::to_string(i) + ",";
    expected += block;
    worker->hand(block);
    REQUIRE(block.empty());
  }
  worker->wait();
  CHECK(all == expected);
}

TEST_CASE("block worker: who hands over waits when too many blocks do") {
  std::atomic<bool> go{false};
  std::atomic<int> handed{0};
  const block_worker::owner worker(new block_worker([&go](const std::string&) {
    while (!go) std::this_thread::yield();
  }));
  std::thread hands([&] {
    for (int i = 0; i < 20; ++i) {
      std::string block = "x";
      worker->hand(block);
      ++handed;
    }
  });
  const int most = static_cast<int>(block_worker::block_limit) + 1;  // and the one that is being consumed
  while (handed < most) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  CHECK(handed == most);
  go = true;
  hands.join();
  worker->wait();
  CHECK(handed == 20);
}

TEST_CASE("block worker: a failure is reported at the next call, and nothing is consumed after it") {
  int consumed = 0;
  const block_worker::owner worker(new block_worker([&consumed](const std::string&) {
    if (++consumed == 3) throw std::runtime_error("broken on purpose");
  }));
  std::string message;
  try {
    for (int i = 0; i < 100; ++i) {
      std::string block = "x";
      worker->hand(block);
    }
    worker->wait();
  } catch (const cutrace::error& e) {
    message = e.what();
  }
  CHECK(message == "broken on purpose");
  CHECK(consumed == 3);
}

TEST_CASE("block worker: ends at once with what it has in hand") {
  std::atomic<int> consumed{0};
  block_worker::owner worker(new block_worker([&consumed](const std::string&) { ++consumed; }));
  for (int i = 0; i < 5; ++i) {
    std::string block = "x";
    worker->hand(block);
  }
  worker.reset();
  CHECK(consumed <= 5);
}

}  // namespace block_worker_test
