// SPDX-License-Identifier: Apache-2.0
// Traces of a small made-up server, each with one fault planted, and the same server without it. One thread launches
// in order, streams run in order, one copy engine for each direction; times as on a PCI Express 5 machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/event.hpp>
#include <map>
#include <string>
#include <vector>

#include "support/sample_events.hpp"

namespace planted {

constexpr std::int64_t us = 1000;
constexpr std::int64_t launch_ns = 3 * us;  ///< a launching call
constexpr std::int64_t reach_ns = 2 * us;   ///< from its end to the earliest start
constexpr double pinned_bytes_per_ns = 50, pageable_bytes_per_ns = 6;

/// The program as it runs: each function is one thing that the host does.
class program {
 public:
  program() { events_.push_back(sample::device(0, "NVIDIA H200")); }

  void own_code(std::int64_t ns) { now_ += ns; }
  void begin_stage(const char* name, const cutrace::request_ref* request = nullptr) {
    open_.push_back({name, now_, ++stages_, request});
  }
  void end_stage() {
    const open_stage s = open_.back();
    open_.pop_back();
    const std::uint64_t parent = open_.empty() ? 0 : open_.back().id;
    cutrace::event e = sample::stage(s.name, s.start, now_, s.id, parent, static_cast<std::uint32_t>(open_.size()));
    if (s.request != nullptr) e = sample::in_stage(e, s.name, s.id, s.request, 1);
    events_.push_back(e);
  }

  void kernel(std::int64_t ns, std::uint64_t stream = 7, std::uint32_t blocks = 4096,
              std::int64_t call_ns = launch_ns) {
    const std::int64_t called = call("cuLaunchKernel", call_ns);
    cutrace::event e = sample::kernel("gemm", 0, 0, id_, stream);
    e.kernel.grid[0] = blocks;
    run(e, called, stream, ns, "kernels" + std::to_string(stream));
  }

  void copy(cutrace::copy_direction direction, std::uint64_t bytes, double bytes_per_ns, std::uint64_t stream,
            bool pageable, bool blocking) {
    const bool up = direction == cutrace::copy_direction::host_to_device;
    const std::int64_t ns = 1500 + static_cast<std::int64_t>(static_cast<double>(bytes) / bytes_per_ns);
    const char* name = up         ? (blocking ? "cuMemcpyHtoD" : "cuMemcpyHtoDAsync")
                       : blocking ? "cuMemcpyDtoH"
                                  : "cuMemcpyDtoHAsync";
    const std::int64_t called = now_;
    cutrace::event e = sample::memcpy(direction, bytes, 0, 0, ++id_, stream);
    e.memcpy_.asynchronous = !blocking;
    if (pageable) (up ? e.memcpy_.source : e.memcpy_.destination) = cutrace::memory_kind::pageable;
    const std::int64_t end = run(e, called, stream, ns, up ? "up" : "down");
    now_ = blocking || pageable ? end + 6 * us : called + launch_ns;
    record_call(name, called, id_);
  }

  void synchronize(std::uint64_t stream = 7) {
    const std::int64_t called = now_;
    now_ = std::max(now_, stream_end_[stream]) + 6 * us;
    record_call("cuStreamSynchronize", called, ++id_);
  }
  void allocate() { call("cuMemAlloc_v2", 60 * us); }
  void free() {  // waits for the device
    const std::int64_t called = now_;
    for (const auto& s : stream_end_) now_ = std::max(now_, s.second);
    now_ += 30 * us;
    record_call("cuMemFree_v2", called, ++id_);
  }
  void lose(std::uint64_t records) { events_.push_back(sample::loss(cutrace::loss_cause::chunk_full, records, now_)); }

  /// In the order of delivery.
  std::vector<cutrace::event> events() {
    std::stable_sort(events_.begin(), events_.end(),
                     [](const cutrace::event& a, const cutrace::event& b) { return a.end_ns < b.end_ns; });
    return events_;
  }

 private:
  struct open_stage {
    const char* name;
    std::int64_t start;
    std::uint64_t id;
    const cutrace::request_ref* request;
  };

  std::int64_t call(const char* name, std::int64_t ns) {
    const std::int64_t called = now_;
    now_ += ns;
    record_call(name, called, ++id_);
    return called;
  }
  void record_call(const char* name, std::int64_t called, std::uint64_t id) {
    events_.push_back(staged(sample::api(name, called, now_, id)));
  }
  std::int64_t run(cutrace::event e, std::int64_t called, std::uint64_t stream, std::int64_t ns,
                   const std::string& engine) {
    std::int64_t& busy = engine_end_[engine];
    e.start_ns = std::max({called + launch_ns + reach_ns, stream_end_[stream], busy});
    e.end_ns = busy = stream_end_[stream] = e.start_ns + ns;
    e.call_start_ns = called;
    events_.push_back(staged(e));
    return e.end_ns;
  }
  cutrace::event staged(cutrace::event e) const {
    if (open_.empty()) return e;
    const open_stage& s = open_.back();
    return sample::in_stage(e, s.name, s.id, s.request, s.request != nullptr ? 1 : 0);
  }

  std::vector<cutrace::event> events_;
  std::vector<open_stage> open_;
  std::map<std::uint64_t, std::int64_t> stream_end_;
  std::map<std::string, std::int64_t> engine_end_;
  std::int64_t now_ = 0;
  std::uint64_t id_ = 0, stages_ = 0;
};

/// Settings of a server of 200 steps; with the defaults it has no fault.
struct fault {
  std::int64_t kernel_ns = 400 * us;
  int kernels = 1;
  std::int64_t launch_call_ns = launch_ns;
  std::uint64_t copy_bytes = 5000000;
  double bytes_per_ns = pinned_bytes_per_ns;
  bool pageable = false, blocking_result = false, synchronise = false, allocate = false;
  bool own_stream_for_copies = true;
  std::int64_t own_code_ns = 10 * us;
  std::uint64_t lost = 0;
};

inline std::vector<cutrace::event> server(const fault& f) {
  using cutrace::copy_direction;
  program p;
  const std::uint64_t copies = f.own_stream_for_copies ? 8 : 7;
  for (int i = 0; i < 200; ++i) {
    p.begin_stage("decode");
    if (f.allocate) p.allocate();
    if (f.copy_bytes > 0)
      p.copy(copy_direction::host_to_device, f.copy_bytes, f.bytes_per_ns, copies, f.pageable, false);
    p.own_code(f.own_code_ns);
    for (int k = 0; k < f.kernels; ++k) p.kernel(f.kernel_ns, 7, 4096, f.launch_call_ns);
    if (f.blocking_result) p.copy(copy_direction::device_to_host, 64, pinned_bytes_per_ns, 7, false, true);
    if (f.synchronise) p.synchronize();
    if (f.allocate) p.free();
    p.end_stage();
  }
  p.synchronize();
  if (f.lost > 0) p.lose(f.lost);
  return p.events();
}

/// Two requests whose small kernels could run side by side.
inline std::vector<cutrace::event> two_requests(bool own_streams) {
  static const cutrace::request_ref requests[2] = {sample::request_id(17), sample::request_id(18)};
  program p;
  for (int i = 0; i < 400; ++i) {
    p.begin_stage("decode", &requests[i % 2]);
    p.kernel(80 * us, own_streams ? 7 + static_cast<std::uint64_t>(i % 2) : 7, 16);
    p.end_stage();
  }
  p.synchronize(7);
  p.synchronize(8);
  return p.events();
}

}  // namespace planted
