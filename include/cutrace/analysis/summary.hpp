// SPDX-License-Identifier: Apache-2.0
// The plain numbers of a trace: calls, launches, allocations and live bytes, copies by direction with their bandwidth,
// synchronisations and the time waited.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/bounds.hpp>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/operations.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct copy_total {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t gpu_ns = 0;  ///< sum of durations on the GPU
  /// Byte-weighted: all bytes over all time, not the mean of each copy's bandwidth. 0 where no time is known.
  double bytes_per_s() const noexcept {
    return gpu_ns == 0 ? 0.0 : static_cast<double>(bytes) * 1e9 / static_cast<double>(gpu_ns);
  }
};

/// Allocations of one kind of memory. Live bytes count what the trace itself saw allocated.
struct memory_total {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t frees = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_live_bytes = 0;
};

struct trace_numbers {
  std::uint64_t driver_calls = 0;
  std::uint64_t runtime_calls = 0;
  std::uint64_t failed_calls = 0;
  /// Calls that launch kernels or graphs, by API. The runtime launches through the driver, so where both are traced
  /// the larger number counts each launch once. Neither launches nor allocation_calls and sync_calls count what was
  /// called inside of a driver call (api_data::enclosing).
  std::uint64_t driver_launches = 0, runtime_launches = 0;
  std::uint64_t kernels = 0, graph_launches = 0, memsets = 0;  ///< on the GPU
  std::array<copy_total, copy_direction_count> copies;         ///< on the GPU, by copy_direction
  memory_total device, host;  ///< from memory records; `host`: pinned and pageable memory
  bool memory_records = false;
  bool live_approximate = false;  ///< more allocations alive than the bounds hold: frees of some are not known
  std::uint64_t driver_allocation_calls = 0, runtime_allocation_calls = 0;  ///< calls that name their bytes
  std::uint64_t driver_allocation_bytes = 0, runtime_allocation_bytes = 0;
  std::uint64_t driver_unsized_allocation_calls = 0, runtime_unsized_allocation_calls = 0;  ///< that do not
  std::uint64_t sync_calls = 0,
                sync_ns = 0;  ///< calls that wait, of the API with more waiting time; summed over threads
  std::uint64_t stages = 0, marks = 0, gpu_operations = 0;
  std::uint64_t tracing_overhead_ns = 0;  ///< as the GPU tracing reports it about itself

  std::uint64_t launches() const noexcept { return std::max(driver_launches, runtime_launches); }
};

/// Takes events in the order of delivery (live bytes depend on it).
class summary {
 public:
  explicit summary(const bounds& limits = {}) : live_limit_(limits.live_allocations) {}

  /// @param c category_of(e), which callers with many events remember by name.
  void add(const event& e, category c) {
    switch (e.kind) {
      case event_kind::api:
        add_call(e, c);
        break;
      case event_kind::kernel:
        ++numbers_.kernels;
        break;
      case event_kind::graph_launch:
        ++numbers_.graph_launches;
        break;
      case event_kind::memset:
        ++numbers_.memsets;
        break;
      case event_kind::memcpy:
        add_copy(e);
        break;
      case event_kind::memory:
        add_memory(e);
        break;
      case event_kind::stage:
        numbers_.stages += !e.stage.adopted;
        break;
      case event_kind::mark:
        ++numbers_.marks;
        break;
      case event_kind::overhead:
        numbers_.tracing_overhead_ns += duration_ns(e);
        break;
      default:
        break;
    }
    if (e.is_gpu_work()) ++numbers_.gpu_operations;
  }
  void add(const event& e) { add(e, category_of(e)); }

  trace_numbers numbers() const {
    trace_numbers n = numbers_;
    // A runtime call waits in the driver call that it makes: the longer sum has each wait once.
    const bool runtime = sync_ns_[1] > sync_ns_[0];
    n.sync_ns = sync_ns_[runtime];
    n.sync_calls = sync_calls_[runtime];
    return n;
  }

 private:
  static std::uint64_t duration_ns(const event& e) noexcept {
    return static_cast<std::uint64_t>(interval_of(e).length_ns());
  }

  void add_call(const event& e, category c) {
    const bool runtime = e.api.runtime_api;
    ++(runtime ? numbers_.runtime_calls : numbers_.driver_calls);
    if (call_failed(e)) ++numbers_.failed_calls;
    if (e.api.enclosing != 0) return;  // a part of the call around it
    if (c == category::kernel) ++(runtime ? numbers_.runtime_launches : numbers_.driver_launches);
    const bool allocates = c == category::memory && e.api.result == 0 && allocates_memory(e.name);
    if (allocates && e.api.bytes == 0) {
      ++(runtime ? numbers_.runtime_unsized_allocation_calls : numbers_.driver_unsized_allocation_calls);
    } else if (allocates) {
      ++(runtime ? numbers_.runtime_allocation_calls : numbers_.driver_allocation_calls);
      (runtime ? numbers_.runtime_allocation_bytes : numbers_.driver_allocation_bytes) += e.api.bytes;
    }
    if (c == category::sync) {
      ++sync_calls_[runtime];
      sync_ns_[runtime] += duration_ns(e);
    }
  }

  void add_copy(const event& e) {
    if (CUTRACE_UNLIKELY(e.incomplete)) return;  // neither its time nor what it moved is known
    copy_total& t = numbers_.copies[static_cast<std::size_t>(e.memcpy_.direction) % copy_direction_count];
    ++t.count;
    t.bytes += e.memcpy_.bytes;
    t.gpu_ns += duration_ns(e);
  }

  struct allocation {
    std::uint64_t bytes = 0;
    bool host = false;
  };
  memory_total& total_of(bool host) noexcept { return host ? numbers_.host : numbers_.device; }

  void add_memory(const event& e) {
    numbers_.memory_records = true;
    memory_total& t = total_of(in_host_memory(e));
    if (e.memory.operation == memory_operation::allocate) {
      ++t.allocations;
      t.allocated_bytes += e.memory.bytes;
      if (live_limit_ != 0 && live_.size() >= live_limit_) {
        numbers_.live_approximate = true;
        return;
      }
      allocation& a = live_[address_in_process(e, e.memory.address)];
      total_of(a.host).live_bytes -= a.bytes;  // an address that was handed out again was freed unseen
      a = {e.memory.bytes, in_host_memory(e)};
      t.live_bytes += a.bytes;
      t.peak_live_bytes = std::max(t.peak_live_bytes, t.live_bytes);
    } else {
      ++t.frees;
      const auto found = live_.find(address_in_process(e, e.memory.address));
      if (found == live_.end()) return;  // allocated before the trace began
      total_of(found->second.host).live_bytes -= found->second.bytes;
      live_.erase(found);
    }
  }

  std::size_t live_limit_;
  trace_numbers numbers_;
  detail::seeded_map<std::uint64_t, allocation> live_;  ///< by address_in_process
  std::uint64_t sync_ns_[2] = {};
  std::uint64_t sync_calls_[2] = {};
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
