// SPDX-License-Identifier: Apache-2.0
// Stage instances that events may still refer to: all that are open, and the last few ten thousand that have ended.
// Collector's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/marker/record.hpp>
#include <cutrace/request.hpp>
#include <deque>
#include <memory>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

// Where things with an id are: an open-addressed table with linear probing, for ids that each thread counts up from a
// start of its own. Eight neighbours share a cache line, since the table is larger than caches are. One thread at a
// time.

/// From ids to places, which are numbers that the owner gives.
class id_places {
 public:
  static constexpr std::uint32_t none = 0xffffffffu;

  std::size_t size() const noexcept { return size_; }
  std::uint64_t bytes() const noexcept { return entries_.size() * sizeof(entry); }

  /// `is(place)`: whether it is the id's; asked where 32 bits of it are equal. @returns the place or `none`
  template <class Is>
  std::uint32_t find(std::uint64_t id, Is is) const {
    if (entries_.empty()) return none;
    const std::uint32_t tag = tag_of(id);
    for (std::size_t at = home(tag); entries_[at].number != 0; at = next(at))
      if (entries_[at].tag == tag && is(entries_[at].number - 1)) return entries_[at].number - 1;
    return none;
  }
  /// Asks for the memory that `find` reads.
  void prefetch(std::uint64_t id) const noexcept {
    if (!entries_.empty()) __builtin_prefetch(&entries_[home(tag_of(id))]);
  }

  /// One that is not there yet.
  void add(std::uint64_t id, std::uint32_t place) {
    if ((size_ + 1) * 3 > entries_.size()) grow();
    put({tag_of(id), place + 1});
    ++size_;
  }

  /// One that is there. Moves those behind it up, so that no search ends before its time (Knuth, The Art of Computer
  /// Programming, volume 3, section 6.4, algorithm R).
  void remove(std::uint64_t id, std::uint32_t place) noexcept {
    std::size_t hole = home(tag_of(id));
    while (entries_[hole].number != place + 1) hole = next(hole);
    for (std::size_t at = next(hole); entries_[at].number != 0; at = next(at)) {
      // One that belongs behind the hole, on the way round to where it is, stays.
      if (((at - home(entries_[at].tag)) & mask_) < ((at - hole) & mask_)) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = {};
    --size_;
  }

 private:
  struct entry {
    std::uint32_t tag = 0;
    std::uint32_t number = 0;  ///< of the place, from 1; 0: nothing
  };
  static constexpr std::size_t first_size = 1024;

  static std::uint32_t tag_of(std::uint64_t id) noexcept {
    return static_cast<std::uint32_t>(id) + static_cast<std::uint32_t>(id >> 40) * 0x9E3779B1u;
  }
  /// Fibonacci hashing (Knuth, as above) of groups of eight. Not of less: the numbers of two threads that count up side
  /// by side would lie on each other.
  std::size_t home(std::uint32_t tag) const noexcept {
    return static_cast<std::size_t>((tag >> 3) * 0x9E3779B97F4A7C15u >> 32 << 3 | (tag & 7u)) & mask_;
  }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask_; }

  void put(const entry& e) noexcept {
    std::size_t at = home(e.tag);
    while (entries_[at].number != 0) at = next(at);
    entries_[at] = e;
  }

  CUTRACE_NOINLINE void grow() {
    std::vector<entry> larger(entries_.empty() ? first_size : 2 * entries_.size());
    larger.swap(entries_);
    mask_ = entries_.size() - 1;
    for (const entry& e : larger)
      if (e.number != 0) put(e);
  }

  std::vector<entry> entries_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

/// One cache line: what is known of a stage is read long after it was told, from further away than any cache.
struct alignas(64) known_stage {
  std::uint64_t id = 0;  ///< 0: none stands here
  const char* name = "";
  std::uint64_t owner = 0;                  ///< instance that named the request, 0 for none
  std::uint64_t word = 0;                   ///< its request word
  std::unique_ptr<request_ref[]> requests;  ///< of the owner itself, text or batch; behind them what names point to
  std::uint32_t name_size = 0;
  std::uint32_t owner_place = ~0u;  ///< see stage_table::place_of
  std::uint32_t total = 0;          ///< requests named
  std::uint32_t request_count = 0;  ///< of those that stand here
  std::uint32_t charged = 0;        ///< bytes of requests, as the table counts them
  request_form form = request_form::none;
  bool closed = false;

  text name_text() const noexcept { return {name, name_size}; }
  void set_name(text t) noexcept {
    name = t.data;
    name_size = t.size;
  }
};
static_assert(sizeof(known_stage) == 64, "one cache line");

class stage_table {
 public:
  static constexpr std::size_t closed_limit = 32768;
  static constexpr std::size_t open_limit = 131072;

  static constexpr std::uint32_t no_place = id_places::none;

  known_stage* find(std::uint64_t id) noexcept {
    const std::uint32_t place = find_place(id);
    return place != no_place ? &at(place) : nullptr;
  }

  /// Where a stage is likely to stand, `no_place` for one that is not known. Not looked at: its memory is far away, and
  /// by the time it is wanted another one may stand there.
  CUTRACE_INLINE std::uint32_t place_of(std::uint64_t id) noexcept {
    if (CUTRACE_UNLIKELY(id != last_.id)) last_ = {id, guess_place(id)};
    return last_.place;
  }
  /// The same as `find(id)`. `place`: what place_of said of it some time ago.
  CUTRACE_INLINE const known_stage* find_at(std::uint32_t place, std::uint64_t id) noexcept {
    if (CUTRACE_LIKELY(place < made_)) {
      const known_stage& s = at(place);
      if (CUTRACE_LIKELY(s.id == id)) return &s;
    }
    return find(id);
  }
  /// Asks for the memory of a stage, and for that of its owner when its own is there. `place`: any number.
  CUTRACE_INLINE void prefetch(std::uint32_t place) const noexcept {
    if (CUTRACE_LIKELY(place < made_)) __builtin_prefetch(&at(place));
  }
  CUTRACE_INLINE void prefetch_owner(std::uint32_t place) const noexcept {
    if (CUTRACE_LIKELY(place < made_)) prefetch(at(place).owner_place);
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
    std::uint32_t place = look_up(id);
    if (place == no_place) place = enter(id);
    recent_of(id) = last_ = {id, place};  // its end comes soon
    places_.prefetch(id + 8);             // where the thread's next stages will go
    return &at(place);
  }

  /// The stage has ended: it is kept until `closed_limit` others have ended after it.
  void close(std::uint64_t id) {
    const std::uint32_t place = find_place(id);
    if (place == no_place || at(place).closed) return;
    at(place).closed = true;
    closed_.push_back(place);
    if (closed_.size() <= closed_limit) return;
    forget_oldest();
    prefetch(closed_[8]);  // no cache holds those that will be forgotten next
    const known_stage& soon = at(closed_[4]);
    places_.prefetch(soon.id);
    if (soon.requests) __builtin_prefetch(soon.requests.get());
  }

  /// What a stage that was just opened serves: a batch of `number`, of which `ids` are known, or one text, which is
  /// nullptr where it was told to an earlier trace. Old stages make room when there is too much of it, and this may be
  /// one of them: it is not used again.
  void keep_requests(known_stage& s, request_form form, std::uint64_t number, const std::vector<std::uint64_t>& ids,
                     const std::string* text) {
    const bool is_batch = form == request_form::batch, is_text = form == request_form::text;
    const std::size_t count = is_batch ? ids.size() : is_text && text != nullptr ? 1 : 0;
    s.total = is_batch ? static_cast<std::uint32_t>(number) : is_text ? 1 : 0;
    char* const behind = make_requests(s, count, is_text && text != nullptr ? text->size() + 1 : 0);
    if (is_text && text != nullptr) {  // not interned: requests come and go without end
      std::memcpy(behind, text->c_str(), text->size() + 1);
      s.requests[0] = {hash_text(text->data(), text->size()), {behind, static_cast<std::uint32_t>(text->size())}};
    } else {
      for (std::size_t i = 0; i < count; ++i) s.requests[i].id = ids[i];
    }
    while (request_bytes_ > request_limit_bytes && !closed_.empty()) forget_oldest();
  }

  std::uint64_t bytes() const noexcept {
    return request_bytes_ + blocks_.size() * sizeof(block) + places_.bytes() + closed_.size() * 4;
  }

 private:
  /// What was found last: threads take turns.
  struct recent {
    std::uint64_t id = 0;
    std::uint32_t place = no_place;
  };
  static constexpr std::size_t recent_count = 64;
  /// Instances count up from a start that each thread has of its own, in the upper bits.
  static std::size_t slot_of(std::uint64_t id) noexcept { return (id + 11 * (id >> 40)) % recent_count; }
  recent& recent_of(std::uint64_t id) noexcept { return recent_[slot_of(id)]; }

  static constexpr std::size_t request_limit_bytes = std::size_t{6} << 20;

  struct block {
    known_stage stages[512];
  };

  known_stage& at(std::uint32_t place) const noexcept { return blocks_[place / 512]->stages[place % 512]; }
  std::uint32_t look_up(std::uint64_t id) const noexcept {
    return places_.find(id, [&](std::uint32_t place) { return at(place).id == id; });
  }
  std::uint32_t find_place(std::uint64_t id) noexcept {
    if (id == 0) return no_place;
    recent& r = recent_of(id);
    if (id == r.id) return r.place;
    const std::uint32_t found = look_up(id);
    if (found != no_place) r = {id, found};
    return found;
  }

  /// New ones, and behind them room for so many bytes. @returns where that is
  char* make_requests(known_stage& s, std::size_t count, std::size_t text_bytes) {
    const std::size_t all = count + (text_bytes + sizeof(request_ref) - 1) / sizeof(request_ref);
    request_bytes_ -= s.charged;
    s.charged = s.request_count = 0;
    s.requests.reset(all != 0 ? new request_ref[all] : nullptr);
    s.request_count = static_cast<std::uint32_t>(count);
    s.charged = static_cast<std::uint32_t>(all * sizeof(request_ref));
    request_bytes_ += s.charged;
    return reinterpret_cast<char*>(s.requests.get() + count);
  }

  std::uint32_t guess_place(std::uint64_t id) noexcept {
    if (id == 0) return no_place;
    const recent& r = recent_of(id);
    return id == r.id ? r.place : places_.find(id, [](std::uint32_t) { return true; });
  }

  std::uint32_t enter(std::uint64_t id) {
    if (free_.empty()) add_block();
    const std::uint32_t place = free_.back();
    places_.add(id, place);
    free_.pop_back();
    at(place).id = id;
    return place;
  }
  CUTRACE_NOINLINE void add_block() {
    free_.reserve(made_ + 512);  // all that there are: forgetting needs no memory
    blocks_.emplace_back(new block);
    for (std::uint32_t i = 512; i-- > 0;) free_.push_back(made_ + i);
    made_ += 512;
  }

  void forget(std::uint32_t place) noexcept {
    known_stage& s = at(place);
    if (s.id == 0) return;
    recent& r = recent_of(s.id);
    if (s.id == r.id) r = {};
    places_.remove(s.id, place);
    request_bytes_ -= s.charged;
    s = known_stage{};
    free_.push_back(place);
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
  recent last_;  ///< of place_of
  recent recent_[recent_count];
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
