// SPDX-License-Identifier: Apache-2.0
// The server as a whole: weights on the GPU, and worker threads around one queue. Made and used by one thread.
#pragma once

#include <pthread.h>  // pthread_setname_np: the name that a trace shows

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <cutrace/cutrace.hpp>
#include <exception>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker.hpp"

namespace server {

/// Puts the weights on the GPU through one buffer, a piece at a time. Returns the GPU work it took.
inline gpu_work upload_weights(gpu& g, const model& m, device_pointer<float> to, host_memory kind) {
  constexpr std::size_t piece = std::size_t{1} << 18;  // floats: 1 MiB
  stream s(g);
  const host_array<float> staging(g, std::min(piece, m.weights.size()), kind);
  for (std::size_t first = 0; first < m.weights.size(); first += piece) {
    const std::size_t n = std::min(piece, m.weights.size() - first);
    std::memcpy(staging.data(), m.at(first), n * sizeof(float));
    s.upload<float>(to + first, staging.data(), n);
    s.synchronize();  // the next piece reuses the buffer
  }
  return s.counted();
}

class service {
 public:
  /// Loads the weights and starts the workers; returns when all of them are ready. The arguments must outlive it.
  service(gpu& g, const model& m, const options& o) : weights_(g, m.weights.size()), lanes_(o.workers) {
    loading_ = upload_weights(g, m, weights_.data(), o.naive ? host_memory::pageable : host_memory::pinned);
    // Each worker prepares its buffers on its own thread. That is still a part of the stage which the caller is in, so
    // the stage is handed over.
    const cutrace::context stage = cutrace::context::capture();
    std::vector<std::future<void>> ready;
    for (lane& l : lanes_) {
      std::promise<void> is_ready;
      ready.push_back(is_ready.get_future());
      l.thread = std::thread([this, &l, &g, &m, &o, stage, p = std::move(is_ready)]() mutable {
        pthread_setname_np(pthread_self(), ("worker " + std::to_string(&l - lanes_.data() + 1)).c_str());
        guard(l, [&] { prepare(l, g, m, o, stage); });
        p.set_value();
        if (l.error == nullptr) guard(l, [&] { l.work->serve(queue_); });
      });
    }
    for (const std::future<void>& r : ready) r.wait();
  }
  service(const service&) = delete;
  service& operator=(const service&) = delete;
  ~service() { join(); }

  request_queue& queue() { return queue_; }

  /// Returns when every request has been served. @throws what a worker threw.
  void finish() {
    join();
    for (const lane& l : lanes_)
      if (l.error != nullptr) std::rethrow_exception(l.error);
  }

  // After `finish`.
  gpu_work gpu_counts() const {
    gpu_work sum = loading_;
    for (const lane& l : lanes_) sum += l.work->gpu_counts();
    return sum;
  }
  service_counts counts() const {
    service_counts sum;
    for (const lane& l : lanes_) sum += l.work->counts();
    return sum;
  }
  /// The requests with their answers, which the caller now owns.
  std::vector<request_pointer> take_finished() {
    std::vector<request_pointer> all;
    for (const lane& l : lanes_) {
      std::vector<request_pointer> some = l.work->take_finished();
      all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
    }
    return all;
  }

 private:
  struct lane {
    std::unique_ptr<worker> work;
    std::exception_ptr error;
    std::thread thread;
  };

  void prepare(lane& l, gpu& g, const model& m, const options& o, const cutrace::context& stage) {
    g.use_in_this_thread();
    const cutrace::adopted_stage keep(stage);
    l.work = std::make_unique<worker>(g, m, weights_.data(), o);
  }

  /// An exception must not leave a thread: it waits in the lane for `finish`.
  template <class Function>
  static void guard(lane& l, Function function) {
    try {
      function();
    } catch (...) {
      l.error = std::current_exception();
    }
  }

  void join() {
    queue_.close();
    for (lane& l : lanes_)
      if (l.thread.joinable()) l.thread.join();
  }

  device_array<float> weights_;
  request_queue queue_;
  gpu_work loading_;
  std::vector<lane> lanes_;
};

/// Tokenizes the requests of a run and queues them, all at once or one each `arrival_us`.
inline void submit_requests(service& s, const options& o) {
  if (o.arrival_us != 0) s.queue().open();
  for (std::uint64_t id = 1; id <= o.requests; ++id) {
    request_pointer r = draw_request(id, o);
    {
      CUTRACE_STAGE("tokenize", id);
      const auto until =
          std::chrono::steady_clock::now() + std::chrono::milliseconds(id == o.slow_request ? slow_ms : 0);
      do r->prompt = tokenize(r->text);
      while (std::chrono::steady_clock::now() < until);
    }
    r->queue_wait = CUTRACE_SPAN("queue_wait", id);
    s.queue().push(std::move(r));
    if (o.arrival_us != 0) std::this_thread::sleep_for(std::chrono::microseconds(o.arrival_us));
  }
  s.queue().open();
}

}  // namespace server
