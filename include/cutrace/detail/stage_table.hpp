// SPDX-License-Identifier: Apache-2.0
// Stage instances that events may still refer to: all that are open, and the last few ten thousand that have ended.
// Collector's thread only.
#pragma once

#include <cstdint>
#include <cutrace/event.hpp>
#include <cutrace/request.hpp>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

struct known_stage {
  text name;
  std::uint64_t parent = 0;
  std::uint64_t owner = 0;  ///< instance that named the request, 0 for none
  std::uint64_t word = 0;   ///< its request word
  request_form form = request_form::none;
  bool closed = false;
  std::uint32_t total = 0;            ///< requests named
  std::vector<request_ref> requests;  ///< of the owner itself: text or batch
};

class stage_table {
 public:
  static constexpr std::size_t closed_limit = 32768;
  static constexpr std::size_t open_limit = 131072;

  known_stage* find(std::uint64_t id) noexcept {
    if (id == 0) return nullptr;
    if (id == last_id_) return last_;
    const auto found = stages_.find(id);
    if (found == stages_.end()) return nullptr;
    last_id_ = id;
    return last_ = &found->second;
  }

  /// Enters a stage that runs. Beyond the limit (stages that never end) the oldest closed one makes room, or none.
  known_stage* open(std::uint64_t id) {
    if (stages_.size() >= open_limit) {
      if (closed_.empty()) return nullptr;
      forget_oldest();
    }
    return &stages_[id];
  }

  /// The stage has ended: it is kept until `closed_limit` others have ended after it.
  void close(std::uint64_t id) {
    known_stage* s = find(id);
    if (s == nullptr || s->closed) return;
    s->closed = true;
    closed_.push_back(id);
    if (closed_.size() > closed_limit) forget_oldest();
  }

  std::uint64_t bytes() const noexcept { return stages_.size() * (sizeof(known_stage) + 48) + closed_.size() * 8; }

 private:
  void forget_oldest() {
    if (closed_.front() == last_id_) last_id_ = 0, last_ = nullptr;
    stages_.erase(closed_.front());
    closed_.pop_front();
  }

  std::unordered_map<std::uint64_t, known_stage> stages_;
  std::deque<std::uint64_t> closed_;
  std::uint64_t last_id_ = 0;
  known_stage* last_ = nullptr;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
