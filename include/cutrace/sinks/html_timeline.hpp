// SPDX-License-Identifier: Apache-2.0
// The rows of the HTML report's timeline: stages by thread and depth, calls by thread, GPU work by device and stream.
// Memory is bounded: when the events no longer fit, neighbours shorter than a resolution become one, everywhere, and
// the resolution doubles until they do. So a trace of any length keeps its whole course.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/duration_histogram.hpp>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/operations.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/html_records.hpp>
#include <cutrace/sinks/html_tables.hpp>
#include <map>
#include <string>
#include <tuple>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace html {

/// In the order in which a thread's rows, and then a device's, stand.
enum class row_kind : std::uint8_t { spans, stages, marks, runtime_calls, driver_calls, ioctls, system, gpu };

struct row_key {
  row_kind kind = row_kind::stages;
  std::uint32_t device = 0;  ///< of GPU rows
  std::uint64_t id = 0;      ///< thread or stream
  std::uint32_t depth = 0;   ///< of stages

  bool on_gpu() const noexcept { return kind == row_kind::gpu; }
  friend bool operator<(const row_key& a, const row_key& b) noexcept {
    const auto order = [](const row_key& k) { return std::make_tuple(k.on_gpu(), k.device, k.id, k.kind, k.depth); };
    return order(a) < order(b);
  }
  friend bool operator==(const row_key& a, const row_key& b) noexcept {
    return a.kind == b.kind && a.device == b.device && a.id == b.id && a.depth == b.depth;
  }
};

class timeline {
 public:
  static constexpr std::uint32_t deepest_stage = 15;  ///< deeper ones share its row
  static constexpr std::size_t row_limit = 256;       ///< rows beyond share one row of the host, one of the GPU

  /// @param limit_bytes of the packed events; the tables beside them take up to half as much again.
  timeline(std::int64_t start_ns, std::size_t limit_bytes)
      : names_(4096, limit_bytes / 16),
        contexts_(limit_bytes / 4),
        shapes_(limit_bytes / 16),
        start_ns_(start_ns),
        limit_bytes_(limit_bytes) {}

  void add(const event& e) {
    switch (e.kind) {
      case event_kind::stage:
        return put(e, e.stage.span ? key(row_kind::spans, 0)
                                   : key(row_kind::stages, e.thread_id, std::min(e.depth, deepest_stage)));
      case event_kind::mark:
        if (e.is_cuda_event()) return;
        return put(e, key(row_kind::marks, e.thread_id));
      case event_kind::api:
        return put(e, key(e.api.runtime_api ? row_kind::runtime_calls : row_kind::driver_calls, e.thread_id));
      case event_kind::jit:
        return put(e, key(row_kind::driver_calls, e.thread_id));
      case event_kind::ioctl:
        return put(e, key(row_kind::ioctls, e.thread_id));
      case event_kind::system:
        return put(e, key(row_kind::system, e.thread_id));
      case event_kind::kernel:
      case event_kind::memcpy:
      case event_kind::memset:
      case event_kind::graph_launch: {
        row_key k = key(row_kind::gpu, e.stream);
        k.device = e.device;
        return put(e, k);
      }
      case event_kind::thread:
        if (thread_names_.size() < row_limit || thread_names_.count(e.thread_id) != 0)
          thread_names_[e.thread_id] = std::string(e.name.data, std::min<std::size_t>(e.name.size, 64));
        return;
      default:
        return;
    }
  }

  const std::map<row_key, packed_records>& rows() const noexcept { return rows_; }
  const packed_records& other_host() const noexcept { return other_host_; }
  const packed_records& other_gpu() const noexcept { return other_gpu_; }
  const analysis::name_table& names() const noexcept { return names_; }
  const context_table& contexts() const noexcept { return contexts_; }
  const shape_table& shapes() const noexcept { return shapes_; }
  const std::map<std::uint64_t, std::string>& thread_names() const noexcept { return thread_names_; }
  /// By number of the name; GPU work and calls. Empty beyond its end.
  const std::vector<analysis::duration_histogram>& histograms() const noexcept { return histograms_; }
  /// Events shorter than this may have been joined; 0: none were.
  std::int64_t resolution_ns() const noexcept { return resolution_ns_; }
  std::uint64_t events() const noexcept { return events_; }

 private:
  static row_key key(row_kind kind, std::uint64_t id, std::uint32_t depth = 0) noexcept {
    row_key k;
    k.kind = kind;
    k.id = id;
    k.depth = depth;
    return k;
  }

  void put(const event& e, const row_key& where) {
    const analysis::interval v = analysis::clip(analysis::interval_of(e), {start_ns_, INT64_MAX});
    if (v.empty() && (v.end_ns < start_ns_ || e.start_ns != e.end_ns)) return;
    record r;
    r.start_ns = v.start_ns;
    r.length_ns = static_cast<std::uint64_t>(v.length_ns());
    r.name = names_.number(analysis::operation_name(e));
    const bool is_stage = e.kind == event_kind::stage;
    const text stage = is_stage ? e.name : e.stage_name;
    if (e.stage_id != 0) r.context = contexts_.number(e, names_.number(stage));
    if (e.is_gpu_work()) {
      add_gpu(r, e);
      count(r);
    } else if (e.kind == event_kind::api) {
      r.detail = static_cast<std::uint32_t>(e.api.result);
      r.bytes = e.api.bytes;
      count(r);
    }
    ++events_;
    packed_records& to = row(where);
    const std::size_t before = to.memory_bytes();
    to.add(r);
    if (CUTRACE_UNLIKELY(to.memory_bytes() != before)) {
      memory_bytes_ += to.memory_bytes() - before;
      if (memory_bytes_ > limit_bytes_) join();
    }
  }

  void add_gpu(record& r, const event& e) {
    if (e.call_name.size != 0) {
      r.call = names_.number(e.call_name);
      const analysis::interval delay = {std::max(e.call_start_ns, start_ns_ - (std::int64_t{1} << 60)), r.start_ns};
      r.delay_ns =
          delay.start_ns > r.start_ns ? -analysis::interval{r.start_ns, delay.start_ns}.length_ns() : delay.length_ns();
    }
    if (e.kind == event_kind::kernel) r.detail = shapes_.number(e.kernel);
    if (e.kind == event_kind::memcpy) r.bytes = e.memcpy_.bytes;
    if (e.kind == event_kind::memset) r.bytes = e.memset_.bytes;
  }

  void count(const record& r) {
    if (r.name >= histograms_.size()) histograms_.resize(names_.size());
    histograms_[r.name].add(r.length_ns);
  }

  packed_records& row(const row_key& k) {
    recent& r = recent_[(k.id * 7 + k.device * 5 + k.depth * 3 + static_cast<std::size_t>(k.kind)) % recent_count];
    if (CUTRACE_UNLIKELY(r.row == nullptr || !(r.key == k))) {
      auto found = rows_.find(k);
      if (found == rows_.end()) {
        if (rows_.size() >= row_limit) return k.on_gpu() ? other_gpu_ : other_host_;
        found = rows_.emplace(k, packed_records()).first;
      }
      r = {k, &found->second};
    }
    return *r.row;
  }

  /// Until a quarter of the room is free again.
  CUTRACE_NOINLINE void join() {
    constexpr std::int64_t finest_ns = 1024, coarsest_ns = std::int64_t{1} << 60;
    do {
      resolution_ns_ = std::max(finest_ns, 2 * resolution_ns_);
      for (auto& r : rows_) r.second.join(resolution_ns_);
      other_host_.join(resolution_ns_);
      other_gpu_.join(resolution_ns_);
      memory_bytes_ = other_host_.memory_bytes() + other_gpu_.memory_bytes();
      for (const auto& r : rows_) memory_bytes_ += r.second.memory_bytes();
    } while (memory_bytes_ > limit_bytes_ / 4 * 3 && resolution_ns_ < coarsest_ns);
  }

  struct recent {
    row_key key;
    packed_records* row = nullptr;
  };
  static constexpr std::size_t recent_count = 64;

  analysis::name_table names_;
  context_table contexts_;
  shape_table shapes_;
  std::map<row_key, packed_records> rows_;
  packed_records other_host_, other_gpu_;
  std::map<std::uint64_t, std::string> thread_names_;
  std::vector<analysis::duration_histogram> histograms_;
  recent recent_[recent_count];
  std::int64_t start_ns_;
  std::size_t limit_bytes_;
  std::size_t memory_bytes_ = 0;
  std::int64_t resolution_ns_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace html
CUTRACE_END_NAMESPACE
