// SPDX-License-Identifier: Apache-2.0
// A simulated machine whose clock stands still until the test moves it, and whose speeds are round numbers.
#pragma once

#include <cutrace/sim/machine.hpp>

namespace test_support {

struct manual_gpu {
  std::uint64_t time_ns = 1000000;
  cutrace::sim::machine machine;
  cutrace::sim::context* context;

  explicit manual_gpu(cutrace::sim::options o = plain())
      : machine(with_clock(o)), context(machine.create_context(0, true, 0)) {}

  static cutrace::sim::options plain() {
    cutrace::sim::options o;
    o.launch_latency_ns = 1000;
    o.node_latency_ns = 100;
    o.copy_latency_ns = 10;
    o.host_to_device_bytes_per_ns = o.device_to_host_bytes_per_ns = o.pageable_bytes_per_ns = 1;
    o.device_bytes_per_ns = 2;
    o.memory_bytes = 1 << 20;
    return o;
  }
  cutrace::sim::options with_clock(cutrace::sim::options o) {
    o.time = {[](void* self) { return static_cast<manual_gpu*>(self)->time_ns; }, this, false};
    return o;
  }
  cutrace::sim::stream* stream(cutrace::sim::stream_kind kind = cutrace::sim::stream_kind::non_blocking) {
    return machine.create_stream(context, kind, 0);
  }
  cutrace::sim::stream* legacy() { return context->legacy.get(); }
  /// Times relative to the moment of the call plus the launch latency.
  cutrace::sim::interval kernel(cutrace::sim::stream* s, std::uint64_t duration_ns, const char* name = "k") {
    cutrace::sim::kernel_work k;
    k.name = name;
    k.duration_ns = duration_ns;
    return relative(machine.issue(s, k));
  }
  cutrace::sim::interval copy(cutrace::sim::stream* s, std::uint64_t to, const void* from, std::uint64_t bytes) {
    cutrace::sim::copy_work c;
    c.destination.address = to;
    c.source.address = reinterpret_cast<std::uint64_t>(from);
    c.width_bytes = bytes;
    return relative(machine.issue(s, c));
  }
  cutrace::sim::interval copy_out(cutrace::sim::stream* s, void* to, std::uint64_t from, std::uint64_t bytes) {
    cutrace::sim::copy_work c;
    c.destination.address = reinterpret_cast<std::uint64_t>(to);
    c.source.address = from;
    c.width_bytes = bytes;
    return relative(machine.issue(s, c));
  }
  std::uint64_t base() const { return time_ns + machine.settings().launch_latency_ns; }

 private:
  cutrace::sim::interval relative(const cutrace::sim::machine::issued& r) const {
    return {r.time.start_ns - base(), r.time.end_ns - base()};
  }
};

}  // namespace test_support
