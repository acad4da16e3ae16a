// SPDX-License-Identifier: Apache-2.0
// A trace as a busy program leaves it, from a seed: threads with nested stages, calls and the GPU work they start,
// copies, sets, graphs, counters and marks, in the order of delivery (by end, late ones marked).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "support/sample_events.hpp"

namespace random_trace {

/// Events that come behind ones which ended later are late; descriptions have no time.
inline void mark_late(std::vector<cutrace::event>& events) {
  std::int64_t newest = INT64_MIN;
  for (cutrace::event& e : events) {
    if (e.kind >= cutrace::event_kind::process && e.kind <= cutrace::event_kind::stream) continue;
    if (e.end_ns < newest) e.late = true;
    newest = std::max(newest, e.end_ns);
  }
}

/// `steps` steps of two threads. What events point to lives in here.
class trace {
 public:
  explicit trace(std::uint64_t seed, std::size_t steps) : random_(seed) {
    using namespace cutrace;
    std::vector<event> body;
    for (std::size_t i = 0; i < steps; ++i) step(body, i % 2 == 0 ? sample::main_thread : sample::worker_thread);
    std::stable_sort(body.begin(), body.end(), [](const event& a, const event& b) { return a.end_ns < b.end_ns; });
    events_.push_back(sample::base(event_kind::process, "llm_server", 0, 0, 0));
    events_.push_back(sample::base(event_kind::thread, "scheduler", 0, 0, sample::main_thread));
    events_.push_back(sample::base(event_kind::thread, "worker", 0, 0, sample::worker_thread));
    for (std::uint32_t d = 0; d < 2; ++d) {
      events_.push_back(sample::device(d, "NVIDIA H200"));
      events_.push_back(sample::context(d + 1, d));
    }
    for (std::size_t i = 0; i < body.size(); i += 5) body[i].by_events = body[i].is_gpu_work();
    for (std::size_t i = 0; i < body.size(); i += 7) body[i].incomplete = body[i].is_gpu_work();
    events_.insert(events_.end(), body.begin(), body.end());
    mark_late(events_);
  }

  const std::vector<cutrace::event>& events() const noexcept { return events_; }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::int64_t pass(std::int64_t most) {
    return now_ += 1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most)));
  }

  void step(std::vector<cutrace::event>& to, std::uint32_t thread) {
    using namespace cutrace;
    static const char* const stages[] = {"prefill", "decode", "sample \"top k\"", "Vorf\xc3\xbcllen"};
    const std::string_view name = stages[below(4)];
    const std::uint64_t id = (std::uint64_t{thread} << 40) + ++stages_;
    requests_.emplace_back();
    std::vector<request_ref>& served = requests_.back();
    for (std::uint64_t n = below(4); n != 0; --n)
      served.push_back(below(5) == 0 ? named_request() : sample::request_id(1000 + below(50)));
    const auto in = [&](event e) {
      return sample::in_stage(e, name, id, served.empty() ? nullptr : served.data(),
                              static_cast<std::uint32_t>(served.size()));
    };
    event whole = sample::stage(name, pass(3000), 0, id, 0, 0, thread);
    for (std::uint64_t n = 1 + below(6); n != 0; --n) call(to, in, thread);
    if (below(3) == 0) to.push_back(in(at_thread(sample::mark("token", pass(100)), thread)));
    // Random numbers are drawn one a statement: the order of a call's arguments is the compiler's choice.
    if (below(4) == 0) {
      const auto depth = static_cast<std::int64_t>(below(64));
      to.push_back(sample::counter("queue depth", pass(10), depth, -1));
    }
    whole.end_ns = pass(2000);
    event done = in(whole);
    done.joined = attribution::none;
    if (below(8) == 0) done.request_total = done.request_count + 7;
    to.push_back(done);
    if (below(10) == 0) {
      const std::int64_t begins = now_, ends = pass(500);
      to.push_back(sample::base(event_kind::overhead, "Buffer Flush", begins, ends, thread));
    }
    if (below(20) == 0) to.push_back(sample::loss(loss_cause::buffer_limit, 1 + below(9), now_));
  }
  cutrace::request_ref named_request() {
    static const char* const names[] = {"chat-0007", "batch-2"};
    const std::string_view name = names[below(2)];
    cutrace::request_ref r = sample::request_name(name);
    r.id = 14695981039346656037u;
    for (const char c : name) r.id = (r.id ^ static_cast<unsigned char>(c)) * 1099511628211u;
    return r;
  }
  static cutrace::event at_thread(cutrace::event e, std::uint32_t thread) {
    e.thread_id = thread;
    return e;
  }

  template <class In>
  void call(std::vector<cutrace::event>& to, In in, std::uint32_t thread) {
    using namespace cutrace;
    const std::uint64_t id = ++correlation_;
    const std::int64_t start = pass(800), end = pass(4000);
    const std::uint32_t device = static_cast<std::uint32_t>(below(2));
    const std::uint64_t stream = 7 + below(3);
    std::int64_t& busy = busy_[device][stream - 7];
    const std::int64_t begins = std::max(busy, start + 1500) + static_cast<std::int64_t>(below(900));
    const std::int64_t ends = busy = begins + 200 + static_cast<std::int64_t>(below(20000));
    const auto gpu = [&](event e) {
      e.context = device + 1;
      e.thread_id = thread;
      return in(sample::called_at(e, start));
    };
    const auto host = [&](const char* name) {
      arguments_.push_back({sample::argument_of("hStream", argument_kind::word, 0x55d0c0ffee00u + stream),
                            sample::argument_of("n", argument_kind::unsigned_integer, below(1000))});
      event e = in(at_thread(sample::api(name, start, end, id, arguments_.back().data(), 2), thread));
      e.joined = attribution::none;
      return e;
    };
    switch (below(6)) {
      case 0: {
        const bool up = below(2) == 0;
        event c = host(up ? "cuMemcpyHtoDAsync" : "cuMemcpyDtoHAsync");
        c.api.direction = up ? copy_direction::host_to_device : copy_direction::device_to_host;
        c.api.bytes = 1 + below(1 << 20);
        event work = gpu(sample::memcpy(c.api.direction, c.api.bytes, begins, ends, id, stream, device));
        to.push_back(c);
        to.push_back(work);
        return;
      }
      case 1:
        to.push_back(host("cuMemsetD8Async"));
        to.push_back(gpu(sample::memset(1 + below(4096), begins, ends, id, stream, device)));
        return;
      case 2: {
        event failed = host("cuMemAlloc");
        failed.api.result = 2;
        failed.api.result_name = sample::text_of("CUDA_ERROR_OUT_OF_MEMORY");
        to.push_back(failed);
        return;
      }
      default: {
        static const char* const kernels[] = {"gemm(float const*, float const*, float*, int)", "softmax",
                                              "layer_norm<4>"};
        to.push_back(host("cuLaunchKernel"));
        event k = gpu(sample::kernel(kernels[below(3)], begins, ends, id, stream, device));
        k.kernel.mangled_name = k.name;
        k.kernel.grid[0] = 1 + static_cast<std::uint32_t>(below(3)) * 16;
        k.kernel.grid[1] = 2;
        to.push_back(k);
      }
    }
  }

  std::mt19937_64 random_;
  std::int64_t now_ = 1000;
  std::int64_t busy_[2][3] = {};
  std::uint64_t stages_ = 0, correlation_ = 0;
  std::deque<std::vector<cutrace::request_ref>> requests_;
  std::deque<std::vector<cutrace::argument>> arguments_;
  std::vector<cutrace::event> events_;
};

}  // namespace random_trace
