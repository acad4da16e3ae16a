// SPDX-License-Identifier: Apache-2.0
// Stage instances that events may still refer to: all that are open, and the last few ten thousand that have ended.
// Collector's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/detail/id_places.hpp>
#include <cutrace/event.hpp>
#include <cutrace/request.hpp>
#include <deque>
#include <memory>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

struct known_stage {
  std::uint64_t id = 0;  ///< 0: none stands here
  text name;
  std::uint64_t parent = 0;
  std::uint64_t owner = 0;  ///< instance that named the request, 0 for none
  std::uint64_t word = 0;   ///< its request word
  request_form form = request_form::none;
  bool closed = false;
  std::uint32_t number = 0;           ///< of its place in the table
  std::uint32_t total = 0;            ///< requests named
  std::vector<request_ref> requests;  ///< of the owner itself: text or batch
  std::string request_text;           ///< what the one request of text form points to
  std::size_t charged = 0;            ///< bytes of requests, as the table counts them

  /// As a new one, without its memory.
  void empty() noexcept {
    id = parent = owner = word = 0;
    name = text{};
    form = request_form::none;
    closed = false;
    total = 0;
    charged = 0;
    if (requests.capacity() != 0) std::vector<request_ref>().swap(requests);
    std::string().swap(request_text);
  }
};

class stage_table {
 public:
  static constexpr std::size_t closed_limit = 32768;
  static constexpr std::size_t open_limit = 131072;

  known_stage* find(std::uint64_t id) noexcept {
    if (id == 0) return nullptr;
    recent& r = recent_of(id);
    if (id == r.id) return r.stage;
    known_stage* const found = look_up(id);
    if (found != nullptr) r = {id, found};
    return found;
  }

  /// Asks for the memory that `find` will want: first that of the place, some time later the stage itself.
  void prefetch_place(std::uint64_t id) const noexcept {
    if (id != recent_[slot_of(id)].id) places_.prefetch(id);
  }
  void prefetch(std::uint64_t id) noexcept {
    if (const known_stage* s = find(id)) prefetch(*s);
  }

  /// Enters a stage that runs. Beyond the limit (stages that never end) the oldest closed one makes room, or any.
  /// nullptr for 0, which is no stage.
  known_stage* open(std::uint64_t id) {
    if (id == 0) return nullptr;
    if (places_.size() >= open_limit) {
      if (!closed_.empty())
        forget_oldest();
      else
        forget(victim_++ % made_);  // stages whose end was lost must not lock out those to come
    }
    known_stage* s = look_up(id);
    if (s == nullptr) s = enter(id);
    recent_of(id) = {id, s};  // its end comes soon
    return s;
  }

  /// The stage has ended: it is kept until `closed_limit` others have ended after it.
  void close(std::uint64_t id) {
    known_stage* s = find(id);
    if (s == nullptr || s->closed) return;
    s->closed = true;
    closed_.push_back(s->number);
    if (closed_.size() <= closed_limit) return;
    forget_oldest();
    prefetch(at(closed_[8]));  // no cache holds those that will be forgotten next
    places_.prefetch(at(closed_[4]).id);
  }

  /// Counts the requests of a stage that was just filled; old stages make room when they become too many.
  void charge(known_stage& s) {
    request_bytes_ -= s.charged;
    s.charged = s.requests.capacity() * sizeof(request_ref) + s.request_text.capacity();
    request_bytes_ += s.charged;
    while (request_bytes_ > request_limit_bytes && !closed_.empty()) forget_oldest();
  }

  std::uint64_t bytes() const noexcept {
    return request_bytes_ + blocks_.size() * sizeof(block) + places_.bytes() + closed_.size() * 4;
  }

 private:
  /// What was found last: each event asks for its stage and for that which names the requests, threads take turns.
  struct recent {
    std::uint64_t id = 0;
    known_stage* stage = nullptr;
  };
  static constexpr std::size_t recent_count = 64;
  /// Instances count up from a start that each thread has of its own, in the upper bits.
  static std::size_t slot_of(std::uint64_t id) noexcept { return (id + 11 * (id >> 40)) % recent_count; }
  recent& recent_of(std::uint64_t id) noexcept { return recent_[slot_of(id)]; }
  static void prefetch(const known_stage& s) noexcept {
    __builtin_prefetch(&s);
    __builtin_prefetch(reinterpret_cast<const char*>(&s) + sizeof(s) - 1);
  }

  static constexpr std::size_t request_limit_bytes = std::size_t{6} << 20;

  struct block {
    known_stage stages[512];
  };

  known_stage& at(std::uint32_t number) noexcept { return blocks_[number / 512]->stages[number % 512]; }
  known_stage* look_up(std::uint64_t id) noexcept {
    const std::uint32_t number = places_.find(id, [&](std::uint32_t n) { return at(n).id == id; });
    return number != id_places::none ? &at(number) : nullptr;
  }

  known_stage* enter(std::uint64_t id) {
    if (free_.empty()) add_block();
    const std::uint32_t number = free_.back();
    places_.add(id, number);
    free_.pop_back();
    known_stage& s = at(number);
    s.id = id;
    s.number = number;
    return &s;
  }
  CUTRACE_NOINLINE void add_block() {
    free_.reserve(made_ + 512);  // all that there are: forgetting needs no memory
    blocks_.emplace_back(new block);
    for (std::uint32_t i = 512; i-- > 0;) free_.push_back(made_ + i);
    made_ += 512;
  }

  void forget(std::uint32_t number) noexcept {
    known_stage& s = at(number);
    if (s.id == 0) return;
    recent& r = recent_of(s.id);
    if (s.id == r.id) r = {};
    places_.remove(s.id, number);
    request_bytes_ -= s.charged;
    s.empty();
    free_.push_back(number);
  }

  void forget_oldest() noexcept {
    const std::uint32_t oldest = closed_.front();
    closed_.pop_front();
    forget(oldest);
  }

  std::vector<std::unique_ptr<block>> blocks_;  ///< which do not move
  std::uint32_t made_ = 0;
  std::vector<std::uint32_t> free_;  ///< numbers of those that hold nothing; the others are in places_
  id_places places_;
  std::deque<std::uint32_t> closed_;  ///< in the order in which they ended
  std::uint32_t victim_ = 0;
  std::size_t request_bytes_ = 0;
  recent recent_[recent_count];
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
