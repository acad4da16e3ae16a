// SPDX-License-Identifier: Apache-2.0
// From the simulation's clock (CLOCK_MONOTONIC) to the one that the client sees: its timestamp callback, or
// CLOCK_REALTIME as CUPTI has it by default on Linux. GPU times are interpolated between moments at which both clocks
// were read together, so the map is continuous and monotonic for any client clock, also one that counts ticks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <cutrace/clock.hpp>
#include <mutex>
#include <vector>

namespace standin {

class clock_map {
 public:
  using function = std::uint64_t (*)();

  static std::uint64_t realtime_ns() {
    timespec t{};
    clock_gettime(CLOCK_REALTIME, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
  }

  void use(function f) {
    const std::lock_guard<std::mutex> hold(lock_);
    now_ = f;
    anchors_.clear();
    anchors_.push_back(read());
  }

  std::uint64_t now() {
    const std::lock_guard<std::mutex> hold(lock_);
    return now_();
  }

  /// Reads both clocks; times up to the returned moment (simulation's clock) can be mapped.
  std::uint64_t advance() {
    const std::lock_guard<std::mutex> hold(lock_);
    const anchor a = read();
    if (anchors_.empty() || a.sim > anchors_.back().sim) anchors_.push_back(a);
    if (anchors_.size() > 65536) anchors_.erase(anchors_.begin(), anchors_.begin() + 32768);
    return anchors_.back().sim;
  }

  std::uint64_t map(std::uint64_t sim) {
    const std::lock_guard<std::mutex> hold(lock_);
    auto to = std::upper_bound(anchors_.begin(), anchors_.end(), sim,
                               [](std::uint64_t v, const anchor& a) { return v < a.sim; });
    if (to == anchors_.end()) --to;
    if (to == anchors_.begin())
      return anchors_.front().client - (anchors_.front().sim - sim);  // before the first reading
    const anchor &a = *(to - 1), &b = *to;
    const long double part = static_cast<long double>(sim - a.sim) / static_cast<long double>(b.sim - a.sim);
    return a.client + static_cast<std::uint64_t>(part * static_cast<long double>(b.client - a.client));
  }

 private:
  struct anchor {
    std::uint64_t sim, client;
  };
  /// The closest of a few reads of one clock between two of the other.
  anchor read() const {
    anchor best{};
    std::uint64_t narrowest = ~std::uint64_t{0};
    for (int i = 0; i < 5; ++i) {
      const std::uint64_t before = cutrace::clock::monotonic_ns();
      const std::uint64_t client = now_();
      const std::uint64_t after = cutrace::clock::monotonic_ns();
      if (after - before >= narrowest) continue;
      narrowest = after - before;
      best = {before + (after - before) / 2, client};
    }
    return best;
  }

  std::mutex lock_;
  function now_ = &realtime_ns;
  std::vector<anchor> anchors_;
};

}  // namespace standin
