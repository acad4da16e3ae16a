// SPDX-License-Identifier: Apache-2.0
// Stage instances that events may still refer to: all that are open, and the last few ten thousand that have ended.
// Collector's thread only.
#pragma once

#include <cstdint>
#include <cutrace/event.hpp>
#include <cutrace/request.hpp>
#include <deque>
#include <memory>
#include <string>
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
  std::string request_text;           ///< what the one request of text form points to
  std::size_t charged = 0;            ///< bytes of requests, as the table counts them
};

class stage_table {
 public:
  static constexpr std::size_t closed_limit = 32768;
  static constexpr std::size_t open_limit = 131072;

  known_stage* find(std::uint64_t id) noexcept {
    if (id == 0) return nullptr;
    recent& r = recent_of(id);
    if (id == r.id) return r.stage;
    const auto found = stages_.find(id);
    if (found == stages_.end()) return nullptr;
    r = {id, &found->second};
    return r.stage;
  }

  /// Enters a stage that runs. Beyond the limit (stages that never end) the oldest closed one makes room, or none.
  known_stage* open(std::uint64_t id) {
    if (stages_.size() >= open_limit) {
      if (!closed_.empty())
        forget_oldest();
      else
        forget(stages_.begin()->first);  // stages whose end was lost must not lock out those to come
    }
    known_stage* const s = &stages_[id];
    recent_of(id) = {id, s};  // its end comes soon
    return s;
  }

  /// The stage has ended: it is kept until `closed_limit` others have ended after it.
  void close(std::uint64_t id) {
    known_stage* s = find(id);
    if (s == nullptr || s->closed) return;
    s->closed = true;
    closed_.push_back(id);
    if (closed_.size() > closed_limit) forget_oldest();
  }

  /// Counts the requests of a stage that was just filled; old stages make room when they become too many.
  void charge(known_stage& s) {
    request_bytes_ -= s.charged;
    s.charged = s.requests.capacity() * sizeof(request_ref) + s.request_text.capacity();
    request_bytes_ += s.charged;
    while (request_bytes_ > request_limit_bytes && !closed_.empty()) forget_oldest();
  }

  std::uint64_t bytes() const noexcept {
    return request_bytes_ + stages_.size() * (sizeof(known_stage) + 48) + closed_.size() * 8;
  }

 private:
  /// What was found last: each event asks for its stage and for that which names the requests, threads take turns.
  struct recent {
    std::uint64_t id = 0;
    known_stage* stage = nullptr;
  };
  static constexpr std::size_t recent_count = 64;
  /// Instances count up from a start that each thread has of its own, in the upper bits.
  recent& recent_of(std::uint64_t id) noexcept { return recent_[(id + 11 * (id >> 40)) % recent_count]; }

  static constexpr std::size_t request_limit_bytes = std::size_t{6} << 20;

  CUTRACE_NOINLINE void forget(std::uint64_t id) {
    recent& r = recent_of(id);
    if (id == r.id) r = {};
    const auto found = stages_.find(id);
    if (found == stages_.end()) return;
    request_bytes_ -= found->second.charged;
    stages_.erase(found);
  }

  void forget_oldest() {
    forget(closed_.front());
    closed_.pop_front();
  }

  std::unordered_map<std::uint64_t, known_stage> stages_;
  std::deque<std::uint64_t> closed_;
  std::size_t request_bytes_ = 0;
  recent recent_[recent_count];
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
