// SPDX-License-Identifier: Apache-2.0
// Costs of launches and replays in one process whose state changes: each is measured for some milliseconds in one
// state, then in the next, turn by turn, so that what drifts meanwhile drifts for all. Where a part of launch_cost
// makes a number of calls, a segment goes on for a time: threads that launch together must end together.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cutrace/cutrace.hpp>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "calls.hpp"
#include "driver.hpp"

namespace bench {

struct spent {
  std::uint64_t ns = 0, operations = 0;
};

/// `one` for so long, in batches that end in a synchronisation, each in a stage of its own.
template <class One>
spent repeat_for(const driver& gpu, std::uint64_t ns, int batch, One one) {
  spent s;
  const std::uint64_t begin = cutrace::clock::monotonic_ns();
  do {
    CUTRACE_STAGE("batch", s.operations);
    for (int i = 0; i < batch; ++i) one();
    gpu.synchronize();
    s.operations += static_cast<std::uint64_t>(batch);
    s.ns = cutrace::clock::monotonic_ns() - begin;
  } while (s.ns < ns);
  return s;
}

/// Threads that launch at the same time, each on a stream of its own, and rest in between.
class launching_threads {
 public:
  launching_threads(const driver& gpu, int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this, mine = gpu.with_own_stream()] { work(mine); });
  }
  ~launching_threads() {
    run(0);
    for (std::thread& t : threads_) t.join();
  }

  /// Time and launches of all threads together; returns when the last one has synchronised. 0 ends the threads.
  spent run(std::uint64_t ns) {
    std::unique_lock<std::mutex> hold(mutex_);
    sum_ = {};
    for_ns_ = ns;
    busy_ = threads_.size();
    ++turn_;
    changed_.notify_all();
    changed_.wait(hold, [&] { return busy_ == 0; });
    return sum_;
  }

 private:
  void work(const driver& gpu) {
    gpu.use();
    std::unique_lock<std::mutex> hold(mutex_);
    for (std::uint64_t turn = 1;; ++turn) {
      changed_.wait(hold, [&] { return turn_ == turn; });
      const std::uint64_t ns = for_ns_;
      hold.unlock();
      const spent s = ns != 0 ? repeat_for(gpu, ns, synchronise_every, [&] { gpu.launch(); }) : spent{};
      hold.lock();
      sum_.ns += s.ns;
      sum_.operations += s.operations;
      if (--busy_ == 0) changed_.notify_all();
      if (ns == 0) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t turn_ = 0, for_ns_ = 0;
  std::size_t busy_ = 0;
  spent sum_;
  std::vector<std::thread> threads_;
};

class segments {
 public:
  static constexpr int nodes = 100, replays = 32;  ///< of the graph, and between two synchronisations

  /// `ns` each. CUDA has been started.
  segments(const driver& gpu, std::uint64_t ns) : ns_(ns), gpu_(gpu), one_(gpu, 1), four_(gpu, 4) {
    const CUgraphExec exec = gpu_.chain(nodes);
    works_.push_back({"launch", 1, 1, [this](std::uint64_t t) { return one_.run(t); }});
    works_.push_back({"launch_4", 1, 1, [this](std::uint64_t t) { return four_.run(t); }});
    works_.push_back({"graph_100", nodes, 1000, [this, exec](std::uint64_t t) {
                        return repeat_for(gpu_, t, replays, [&] { gpu_.replay(exec); });
                      }});
  }

  /// A segment of each work (launches, replays), `ns` long. 0: as long as the constructor was given, after a fifth of
  /// it unmeasured, in which a change of state settles.
  void measure(const std::string& state, std::uint64_t ns = 0) {
    for (const work& w : works_) {
      if (ns == 0) kernels_ += w.run(ns_ / 5).operations * w.kernels;
      const spent s = w.run(ns != 0 ? ns : ns_);
      kernels_ += s.operations * w.kernels;
      const double each = static_cast<double>(s.ns) / static_cast<double>(s.operations) / w.ns_a_unit;
      costs_[(state.empty() ? "" : state + ".") + w.metric].push_back(each);
    }
  }

  /// How many works, from the first, are launches.
  static constexpr std::size_t launches = 2;
  /// One work for so long: what an operation costs.
  double cost(std::size_t which, std::uint64_t ns) {
    const work& w = works_[which];
    const spent s = w.run(ns);
    kernels_ += s.operations * w.kernels;
    return static_cast<double>(s.ns) / static_cast<double>(s.operations) / w.ns_a_unit;
  }
  const char* metric(std::size_t which) const { return works_[which].metric; }

  std::uint64_t kernels() const { return kernels_; }  ///< launched so far, by all works
  /// The median of the segments of each state and work.
  void print() const {
    for (const auto& c : costs_) print_measured(c.first.c_str(), median(c.second));
  }

 private:
  struct work {
    const char* metric;
    std::uint64_t kernels;  ///< of an operation
    double ns_a_unit;       ///< launches are reported in ns, replays in us
    std::function<spent(std::uint64_t)> run;
  };

  std::uint64_t ns_;
  driver gpu_;
  launching_threads one_, four_;
  std::vector<work> works_;
  std::uint64_t kernels_ = 0;
  std::map<std::string, std::vector<double>> costs_;
};

}  // namespace bench
