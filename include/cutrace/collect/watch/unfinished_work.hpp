// SPDX-License-Identifier: Apache-2.0
// GPU work that a forced flush returned before it had ended: its times are lost for good, its call, thread, stream,
// stage and requests are known. It waits here until something shows that it has ended, or the trace does. Collector's
// thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/collect/pending.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// A stream as CUPTI's records name it.
struct gpu_stream {
  std::uint32_t context;
  std::uint64_t stream;
  bool operator==(const gpu_stream& o) const noexcept { return context == o.context && stream == o.stream; }

  struct hash {
    std::size_t operator()(const gpu_stream& k) const noexcept {
      return static_cast<std::size_t>((k.stream ^ std::uint64_t{k.context} << 32) * 0x9E3779B97F4A7C15u);
    }
  };
};

/// Correlation ids count up and wrap.
inline bool is_before(std::uint32_t id, std::uint32_t later) noexcept {
  return static_cast<std::int32_t>(later - id) > 0;
}

inline bool is_call_unknown(const event& e) noexcept {
  return e.joined == attribution::no_callback || e.joined == attribution::expired;
}

class unfinished_work {
 public:
  struct entry {
    pending_event work;  ///< joined to its call; start and end are both the begin of the call, raw frame
    std::uint32_t stage_place;
    std::int64_t seen_ns;  ///< when it was seen unfinished, raw
    bool delivered;        ///< already delivered as unfinished, in case a signal ends the process

    /// Begin of the call; where the call is not known, it may have been at any time.
    std::int64_t called_ns() const noexcept { return is_call_unknown(work) ? INT64_MIN : work.call_start_ns; }
  };

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }
  /// Those that are still to be delivered.
  std::size_t waiting() const noexcept { return size_ - delivered_; }
  std::size_t bytes() const noexcept { return size_ * sizeof(entry) + streams_.size() * stream_bytes; }

  /// Pieces of unfinished work on one stream.
  std::size_t count(std::uint32_t context, std::uint64_t stream) const noexcept {
    const auto found = streams_.find({context, stream});
    return found != streams_.end() ? found->second.size() : 0;
  }
  /// Calls `visit(entry)` for each, those of a stream one after the other and in the order in which they came.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const auto& s : streams_)
      for (const entry& e : s.second) visit(e);
  }
  /// Calls `deliver(entry)` for each entry that was not delivered before.
  template <class Deliver>
  void deliver_waiting(Deliver deliver) {
    for (auto& s : streams_) {
      for (entry& e : s.second) {
        if (e.delivered) continue;
        deliver(e);
        e.delivered = true;
        ++delivered_;
      }
    }
  }

  void add(const entry& e) {
    streams_[{e.work.context, e.work.stream}].push_back(e);
    ++size_;
  }

  /// Calls `close(entry, end_ns)` for what `later`, of which a record came, shows to have ended: work that was launched
  /// afterwards on the same stream has begun, or a wait for the stream or its context that began afterwards has
  /// returned. Times of the raw frame.
  template <class Close>
  void close_before(const event& later, Close close) {
    if (later.is_gpu_work()) {
      close_of({later.context, later.stream}, later.correlation_id, later.start_ns, close);
    } else if (later.kind == event_kind::sync && later.sync.what == sync_kind::stream) {
      close_of({later.context, later.stream}, later.correlation_id, later.end_ns, close);
    } else if (later.kind == event_kind::sync && later.sync.what == sync_kind::context) {
      std::vector<gpu_stream> of_context;
      for (const auto& s : streams_)
        if (s.first.context == later.context) of_context.push_back(s.first);
      for (const gpu_stream& s : of_context) close_of(s, later.correlation_id, later.end_ns, close);
    }
  }
  /// At the end of the trace, which was at `end_ns`.
  template <class Close>
  void close_all(std::int64_t end_ns, Close close) {
    for (auto& s : streams_)
      for (const entry& e : s.second) close(e, end_ns);
    streams_.clear();
    size_ = delivered_ = 0;
  }

 private:
  static constexpr std::size_t stream_bytes = sizeof(gpu_stream) + sizeof(std::vector<entry>) + 32;

  /// Nodes of one replay share an id: none of them shows that another one has ended.
  template <class Close>
  void close_of(const gpu_stream& key, std::uint64_t later, std::int64_t end_ns, Close close) {
    const auto found = streams_.find(key);
    if (found == streams_.end()) return;
    std::vector<entry>& all = found->second;
    std::size_t left = 0;
    for (entry& e : all) {
      if (!is_before(static_cast<std::uint32_t>(e.work.correlation_id), static_cast<std::uint32_t>(later))) {
        all[left++] = e;
        continue;
      }
      delivered_ -= e.delivered;
      close(e, end_ns);
    }
    size_ -= all.size() - left;
    all.resize(left);
    if (left == 0) streams_.erase(found);
  }

  std::unordered_map<gpu_stream, std::vector<entry>, gpu_stream::hash> streams_;
  std::size_t size_ = 0, delivered_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
