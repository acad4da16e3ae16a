// SPDX-License-Identifier: Apache-2.0
// Stage instances that events may still refer to: all that are open, and those that have ended for as long as GPU
// records of their calls can come and events wait in the ordering window; beyond that, as many as fit into a part of
// the memory. All times are of the raw frame (clock.hpp). Collector's thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/collect/memory_blocks.hpp>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/marker/record.hpp>
#include <cutrace/request.hpp>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

// Places of things with an id: an open-addressed table with linear probing, for ids that each thread counts up from a
// different start. Eight neighbours share a cache line, since the table is larger than caches are. One thread at a
// time.

/// Maps ids to places, numbers that the owner of the table gives.
class id_places {
 public:
  static constexpr std::uint32_t none = 0xffffffffu;

  std::size_t size() const noexcept { return size_; }
  std::uint64_t bytes() const noexcept { return entries_.size() * sizeof(entry); }

  /// `is(place)`: whether the place is the one of `id`; called where the tags are equal. @returns the place or `none`
  template <class Is>
  std::uint32_t find(std::uint64_t id, Is is) const {
    if (entries_.empty()) return none;
    const std::uint32_t tag = tag_of(id);
    for (std::size_t at = home(tag); entries_[at].number != 0; at = next(at))
      if (entries_[at].tag == tag && is(entries_[at].number - 1)) return entries_[at].number - 1;
    return none;
  }
  /// Prefetches the memory that `find` reads.
  void prefetch(std::uint64_t id) const noexcept {
    if (!entries_.empty()) __builtin_prefetch(&entries_[home(tag_of(id))]);
  }

  /// Adds an id that is not there yet.
  void add(std::uint64_t id, std::uint32_t place) {
    if ((size_ + 1) * 3 > entries_.size()) grow();
    put({tag_of(id), place + 1});
    ++size_;
  }

  /// Removes an id that is there. Moves ids behind it up, so that no search ends too early (Knuth, The Art of Computer
  /// Programming, volume 3, section 6.4, algorithm R).
  void remove(std::uint64_t id, std::uint32_t place) noexcept {
    std::size_t hole = home(tag_of(id));
    while (entries_[hole].number != place + 1) hole = next(hole);
    for (std::size_t at = next(hole); entries_[at].number != 0; at = next(at)) {
      // An id that belongs behind the hole, on the way round to its place, stays.
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
  /// Fibonacci hashing (Knuth, as above) of groups of eight. A thread's next ids
  /// fill a line that is in the cache already; where the line of another thread's ids falls is as good as random.
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

/// One cache line: what is known of a stage is read long after it was reported, from further away than any cache.
struct alignas(64) known_stage {
  std::uint64_t id = 0;  ///< 0: none stands here
  const char* name = "";
  std::uint64_t naming_stage = 0;  ///< instance that named the request, 0 for none
  std::uint64_t word = 0;          ///< the request: id, hash or number of ids, as `form` says
  /// Only in the naming stage itself: the ids of a batch; or the hash, the size and the characters (with a NUL) of a
  /// text.
  std::unique_ptr<std::uint64_t[]> requests;
  std::uint32_t name_size = 0;
  std::uint32_t naming_place = ~0u;  ///< see stage_table::place_of
  std::uint32_t total = 0;           ///< requests named
  std::uint32_t request_count = 0;   ///< number in `requests`
  std::uint32_t charged = 0;         ///< bytes of requests, as the table counts them
  request_form form = request_form::none;
  bool closed = false;
  bool queued = false;  ///< waits in one of the table's lists to be forgotten

  text name_text() const noexcept { return {name, name_size}; }
  void set_name(text t) noexcept {
    name = t.data;
    name_size = t.size;
  }
  bool has_text() const noexcept { return form == request_form::text && request_count != 0; }
  request_ref text_request() const noexcept {
    return {requests[0], {reinterpret_cast<const char*>(requests.get() + 2), static_cast<std::uint32_t>(requests[1])}};
  }
};
static_assert(sizeof(known_stage) == 64, "one cache line");

class stage_table {
 public:
  static constexpr std::uint32_t no_place = id_places::none;
  /// Threads that made a stage's calls: none, or more than one.
  static constexpr std::uint32_t no_thread = ~std::uint32_t{0}, many_threads = no_thread - 1;

  /// `keep_bytes`: stages that nothing refers to are kept up to this size, since a captured context may be adopted
  /// later. `limit_bytes`: beyond it the oldest stages are forgotten, even if something refers to them.
  void set_limits(std::size_t keep_bytes, std::size_t limit_bytes) noexcept {
    keep_bytes_ = keep_bytes;
    limit_bytes_ = limit_bytes;
  }

  known_stage* find(std::uint64_t id) noexcept {
    const std::uint32_t place = find_place(id);
    return place != no_place ? &at(place) : nullptr;
  }

  /// The place where a stage is likely to be, `no_place` for an unknown one. Its memory is not read: it is far away,
  /// and by the time it is needed another stage may be there.
  CUTRACE_INLINE std::uint32_t place_of(std::uint64_t id) noexcept {
    if (CUTRACE_UNLIKELY(id != last_.id)) last_ = {id, guess_place(id)};
    return last_.place;
  }
  /// The same as `find(id)`. `place`: what place_of returned for `id` some time ago.
  CUTRACE_INLINE const known_stage* find_at(std::uint32_t place, std::uint64_t id) noexcept {
    if (CUTRACE_LIKELY(place < made_)) {
      const known_stage& s = at(place);
      if (CUTRACE_LIKELY(s.id == id)) return &s;
    }
    return find(id);
  }
  /// Prefetch the memory of a stage; and, once that memory is there, of the stage that named its requests. `place`: any
  /// number.
  CUTRACE_INLINE void prefetch(std::uint32_t place) const noexcept {
    if (CUTRACE_LIKELY(place < made_)) __builtin_prefetch(&at(place));
  }
  CUTRACE_INLINE void prefetch_naming_stage(std::uint32_t place) const noexcept {
    if (CUTRACE_LIKELY(place < made_)) prefetch(at(place).naming_place);
  }

  /// Adds a running stage, unless the table has it; `entered`: it was added. nullptr for id 0, which is no stage.
  known_stage* open(std::uint64_t id, bool& entered) {
    entered = false;
    if (id == 0) return nullptr;
    std::uint32_t place = look_up(id);
    if (place == no_place) {
      if (CUTRACE_UNLIKELY(used_bytes() + entry_bytes > limit_bytes_)) make_room();
      place = enter(id);
      entered = true;
    }
    recent_of(id) = last_ = {id, place};  // its end comes soon
    places_.prefetch(id + 8);             // where the thread's next stages will go
    return &at(place);
  }
  /// `s`, which was just opened, serves the requests of `naming_stage`, which stays for as long as `s` does.
  void set_naming_stage(known_stage& s, std::uint64_t naming_stage) noexcept {
    if (s.naming_stage == naming_stage && s.naming_place != no_place) return;
    s.naming_stage = naming_stage;
    s.naming_place = find_place(naming_stage);
    if (naming_stage != s.id && s.naming_place != no_place) ++life_at(s.naming_place).uses;
  }

  /// `s`, which was just opened, runs in the stage `id`, 0 for none.
  void set_parent(const known_stage& s, std::uint64_t id) noexcept { life_of(s).parent = id; }
  /// The stage around stage `id`, nullptr where there is none or it is not known any more.
  const known_stage* parent_of(std::uint64_t id) noexcept {
    const std::uint32_t place = find_place(id);
    return place != no_place ? find(life_at(place).parent) : nullptr;
  }

  /// A thread has adopted stage `s`, which stays until the adopted part ends. `entered`: the adoption added the stage
  /// to the table, so the stage counts as ended.
  void adopt(known_stage& s, bool entered, std::int64_t begin_ns) {
    ++life_of(s).uses;
    if (entered) close(s.id, begin_ns);
  }
  void adopted_part_ended(std::uint64_t id, std::int64_t end_ns) noexcept {
    const std::uint32_t place = find_place(id);
    if (place == no_place) return;
    life& l = life_at(place);
    if (l.uses != 0) --l.uses;
    l.last_ns = std::max(l.last_ns, end_ns);
  }

  /// Unfinished work refers to a stage, or no longer does. `place`: where the stage may be.
  void hold(std::uint32_t place, std::uint64_t id) noexcept {
    if (place < made_ && at(place).id == id) ++life_at(place).uses;
  }
  void let_go(std::uint32_t place, std::uint64_t id) noexcept {
    if (place >= made_ || at(place).id != id) return;
    life& l = life_at(place);
    if (l.uses != 0) --l.uses;
  }

  /// A call in the stage has returned at `end_ns` whose GPU records may come later. `place`: where the stage may be.
  CUTRACE_INLINE void note_call(std::uint32_t place, std::uint64_t id, std::uint32_t thread,
                                std::int64_t end_ns) noexcept {
    if (CUTRACE_UNLIKELY(place >= made_ || at(place).id != id)) place = find_place(id);
    if (place == no_place) return;
    life& l = life_at(place);
    l.thread = l.thread == no_thread || l.thread == thread ? thread : many_threads;
    l.last_ns = std::max(l.last_ns, end_ns);
  }

  /// The stage has ended: it is kept for as long as anything can refer to it.
  void close(std::uint64_t id, std::int64_t end_ns) {
    const std::uint32_t place = find_place(id);
    if (place == no_place) return;
    known_stage& s = at(place);
    life& l = life_at(place);
    l.last_ns = std::max(l.last_ns, end_ns);
    s.closed = true;
    if (s.queued) return;
    closed_.add() = {id, l.last_ns, place, l.thread};
    s.queued = true;
  }

  /// Keeps the requests of a stage that was just opened: a batch of `number`, of which `ids` are known, or one `text`,
  /// which is nullptr where it was reported to an earlier trace. Over the limit, older stages lose their requests.
  void keep_requests(known_stage& s, request_form form, std::uint64_t number, const std::vector<std::uint64_t>& ids,
                     const std::string* text) {
    const bool is_batch = form == request_form::batch, is_text = form == request_form::text;
    s.total = is_batch ? static_cast<std::uint32_t>(number) : is_text ? 1 : 0;
    const std::size_t words = is_batch ? ids.size() : is_text && text != nullptr ? 2 + text->size() / 8 + 1 : 0;
    drop_requests(s);
    if (words == 0) return;
    const std::size_t bytes = words * 8 + allocation_bytes;
    while (used_bytes() + bytes > limit_bytes_)
      if (!forget_passed() && !give_up_requests() && !give_up_oldest(s.id)) return;
    s.requests.reset(new std::uint64_t[words]);
    s.charged = static_cast<std::uint32_t>(bytes);
    request_bytes_ += bytes;
    if (is_batch) {
      s.request_count = static_cast<std::uint32_t>(ids.size());
      std::copy(ids.begin(), ids.end(), s.requests.get());
    } else {  // not interned: requests come and go without end
      s.request_count = 1;
      s.requests[0] = hash_text(text->data(), text->size());
      s.requests[1] = text->size();
      std::memcpy(s.requests.get() + 2, text->c_str(), text->size() + 1);
    }
  }

  /// Forgets stages to which nothing can refer any more, in the order in which this was found, until the table is down
  /// to `keep_bytes`.
  /// `awaited(thread, ns)`: whether GPU records can still come of calls that `thread` (any thread for `many_threads`)
  /// made before `ns`. `now_ns`: all GPU records in the window have ends before this time. `delivered_ns`: all events
  /// that ended before this time have been delivered.
  template <class Awaited>
  void release(Awaited awaited, std::int64_t now_ns, std::int64_t delivered_ns) {
    const auto sort_out = [&](fifo<ended>& from) {  // its first one
      if (from.size() > ahead && from[ahead].until_ns < now_ns) prefetch_all(from[ahead].place);
      ended one = from.front();
      const auto wanted = [&] {
        return one.until_ns >= now_ns || (one.thread != no_thread && awaited(one.thread, one.until_ns));
      };
      bool stays = wanted();
      if (!stays && is_there(one)) {  // the stage is read last: it has left the caches
        const life& l = life_at(one.place);
        one.until_ns = l.last_ns;
        one.thread = l.thread;
        stays = !at(one.place).closed || l.uses != 0 || wanted();
        if (!stays) passed_.add() = {now_ns, {one.id, one.place}};
      }
      if (stays) held_.add() = one;
      from.pop_front();
    };
    if (CUTRACE_UNLIKELY(held_.size() > places_.size() + places_.size() / 2 + 1024)) sweep_held();
    // Stages that are still wanted may be many, and stay for long: each call looks at some of them.
    for (std::size_t n = std::min(held_.size(), held_at_once); n != 0; --n) sort_out(held_);
    while (!closed_.empty()) sort_out(closed_);
    delivered_ns_ = delivered_ns;
    while (used_bytes() > keep_bytes_ && forget_passed()) continue;
    closed_.shrink(), held_.shrink(), passed_.shrink();
  }
  /// Whether the table will soon forget stages that something may refer to.
  bool crowded() const noexcept { return used_bytes() > limit_bytes_ - limit_bytes_ / 8; }

  /// Calls `visit(stage)` for each open stage. Slow: walks all places.
  template <class Visit>
  void for_each_open(Visit visit) const {
    for (std::uint32_t place = 0; place < made_; ++place)
      if (at(place).id != 0 && !at(place).closed) visit(at(place));
  }

  /// Whether there are stages to which only events in the window can still refer.
  bool waits_for_delivery() const noexcept { return !passed_.empty(); }

  /// Bytes in use, and bytes reserved.
  std::uint64_t used_bytes() const noexcept { return request_bytes_ + places_.size() * entry_bytes; }
  std::uint64_t bytes() const noexcept {
    return request_bytes_ + blocks_.size() * sizeof(block) + places_.bytes() + closed_.bytes() + held_.bytes() +
           passed_.bytes() + (oldest_.capacity() + oldest_with_requests_.capacity()) * sizeof(aged);
  }

 private:
  struct whereabouts {
    std::uint64_t id = 0;
    std::uint32_t place = no_place;
  };
  /// The stages that were found last: several, since threads alternate.
  using recent = whereabouts;
  static constexpr std::size_t recent_count = 64;
  /// Ids of stages count up within each thread, whose index stands in the upper bits.
  static std::size_t slot_of(std::uint64_t id) noexcept { return (id + 11 * (id >> 40)) % recent_count; }
  recent& recent_of(std::uint64_t id) noexcept { return recent_[slot_of(id)]; }

  /// How long a stage is wanted, and what it runs in. Beside the stages: delivery, which reads these, needs none of it.
  struct life {
    std::int64_t last_ns = 0;          ///< latest end of the stage and of its calls
    std::uint32_t thread = no_thread;  ///< that made its calls
    std::uint32_t uses = 0;    ///< stages that serve its requests, threads that have adopted it, unfinished work
    std::uint64_t parent = 0;  ///< id
    std::uint64_t number = 0;  ///< counts stages in the order in which they began
  };
  struct block {
    known_stage stages[512];
    life lives[512];
  };
  /// A stage that has ended; `until_ns` and `thread`: of its life when it was looked at last.
  struct ended {
    std::uint64_t id;
    std::int64_t until_ns;
    std::uint32_t place, thread;
  };
  /// A stage to which nothing can refer once all events that ended before `since_ns` are delivered.
  struct passed {
    std::int64_t since_ns;
    whereabouts where;
  };
  using aged = std::pair<std::uint64_t, std::uint32_t>;  ///< life::number and place of a stage
  /// Bytes of one stage, with its entries in `places_` and in one of the lists.
  static constexpr std::size_t entry_bytes = sizeof(known_stage) + sizeof(life) + 3 * 8 + sizeof(ended);
  static constexpr std::size_t allocation_bytes = 16;
  static constexpr std::size_t held_at_once = 1024;
  static constexpr std::size_t ahead = 16;  ///< stages are prefetched so many before they are looked at

  known_stage& at(std::uint32_t place) const noexcept { return blocks_[place / 512]->stages[place % 512]; }
  life& life_at(std::uint32_t place) const noexcept { return blocks_[place / 512]->lives[place % 512]; }
  life& life_of(const known_stage& s) noexcept { return life_at(find_place(s.id)); }
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
    if (free_.size() > ahead) prefetch_all(free_[free_.size() - ahead]);
    at(place).id = id;
    life_at(place).number = ++entered_;
    return place;
  }
  CUTRACE_NOINLINE void add_block() {
    free_.reserve(made_ + 512);  // room for all places: forgetting needs no memory
    blocks_.push_back(std::make_unique<block>());
    for (std::uint32_t i = 512; i-- > 0;) free_.push_back(made_ + i);
    made_ += 512;
  }

  /// A stage's memory has left the caches when it is wanted again. Without this an event costs the collector
  /// 1.23 [1.14, 1.35] times as much (median, 95 % interval; bench/sink_cost, null, 4,000,000 events).
  void prefetch_all(std::uint32_t place) const noexcept {
    __builtin_prefetch(&at(place));
    __builtin_prefetch(&life_at(place));
  }
  template <class Entry>
  bool is_there(const Entry& one) const noexcept {
    return at(one.place).id == one.id;
  }

  void drop_requests(known_stage& s) noexcept {
    request_bytes_ -= s.charged;
    s.charged = s.request_count = 0;
    s.requests.reset();
  }
  /// Drops what was forgotten while it was still wanted.
  CUTRACE_NOINLINE void sweep_held() {
    for (std::size_t n = held_.size(); n != 0; --n) {
      const ended one = held_.front();
      held_.pop_front();
      if (is_there(one)) held_.add() = one;
    }
  }
  void forget(std::uint32_t place) noexcept {
    known_stage& s = at(place);
    recent& r = recent_of(s.id);
    if (s.id == r.id) r = {};
    places_.remove(s.id, place);
    drop_requests(s);
    if (s.naming_stage != s.id && s.naming_place < made_ && at(s.naming_place).id == s.naming_stage) {
      life& naming = life_at(s.naming_place);
      if (naming.uses != 0) --naming.uses;
    }
    s = known_stage{};
    life_at(place) = life{};
    free_.push_back(place);
  }
  /// Forgets the oldest stage to which nothing can refer any more. False where there is none yet.
  bool forget_passed() {
    while (!passed_.empty()) {
      const passed oldest = passed_.front();
      if (oldest.since_ns >= delivered_ns_) return false;
      if (passed_.size() > ahead) {
        prefetch_all(passed_[ahead].where.place);
        places_.prefetch(passed_[ahead].where.id);
      }
      const life& l = life_at(oldest.where.place);
      const bool there = is_there(oldest.where);
      const bool wanted = !at(oldest.where.place).closed || l.uses != 0 || l.last_ns >= oldest.since_ns;
      if (there && wanted)  // it was adopted once more
        held_.add() = {oldest.where.id, l.last_ns, oldest.where.place, l.thread};
      passed_.pop_front();
      if (!there || wanted) continue;
      forget(oldest.where.place);
      return true;
    }
    return false;
  }

  /// Makes room for one more stage: gives up requests before stages that something may refer to, since a stage without
  /// them still has its name.
  CUTRACE_NOINLINE void make_room() {
    while (used_bytes() + entry_bytes > limit_bytes_ && places_.size() != 0)
      if (!forget_passed() && !give_up_requests() && !give_up_oldest(0)) return;
  }
  bool give_up_requests() noexcept {
    if (request_bytes_ == 0) return false;
    return give_up_first(
        oldest_with_requests_, [this](std::uint32_t place) { return at(place).charged; },
        [this](std::uint32_t place) { drop_requests(at(place)); });
  }
  /// Forgets stages that began first, even if they run: stages whose end was lost must not lock out later ones. False
  /// where there is none but `kept`.
  bool give_up_oldest(std::uint64_t kept) noexcept {
    return give_up_first(
        oldest_, [&](std::uint32_t place) { return at(place).id != kept ? at(place).charged + entry_bytes : 0; },
        [this](std::uint32_t place) { forget(place); });
  }
  /// Gives up stages in the order in which they began, until that has freed a 512th of the limit. `oldest`: those that
  /// are next, the first one last; what began after they were found is younger than all of them. `bytes_of(place)`:
  /// what giving it up frees, 0: it stays. False where there is none, and where there is no memory to find them.
  template <class BytesOf, class GiveUp>
  CUTRACE_NOINLINE bool give_up_first(std::vector<aged>& oldest, BytesOf bytes_of, GiveUp give_up) noexcept {
    std::size_t freed = 0;
    while (freed < limit_bytes_ / 512) {
      if (oldest.empty() && (freed != 0 || !find_oldest(oldest, bytes_of))) break;
      const aged one = oldest.back();
      oldest.pop_back();
      const std::size_t bytes = life_at(one.second).number == one.first ? bytes_of(one.second) : 0;
      if (bytes == 0) continue;  // gone meanwhile
      freed += bytes;
      give_up(one.second);
    }
    return freed != 0;
  }
  /// Walks all places, so it finds a 16th of the stages at once.
  template <class BytesOf>
  bool find_oldest(std::vector<aged>& oldest, BytesOf bytes_of) noexcept {
    const std::size_t most = places_.size() / 16 + 1;
    try {
      oldest.reserve(most);
    } catch (const std::bad_alloc&) {
      return false;
    }
    for (std::uint32_t place = 0; place < made_; ++place) {
      if (at(place).id == 0 || bytes_of(place) == 0) continue;
      const aged one{life_at(place).number, place};
      if (oldest.size() == most) {
        if (oldest.front() < one) continue;
        std::pop_heap(oldest.begin(), oldest.end());
        oldest.pop_back();
      }
      oldest.push_back(one);
      std::push_heap(oldest.begin(), oldest.end());
    }
    std::sort(oldest.begin(), oldest.end(), std::greater<>());
    return !oldest.empty();
  }

  std::vector<std::unique_ptr<block>> blocks_;  ///< a block does not move
  std::uint32_t made_ = 0;
  std::vector<std::uint32_t> free_;  ///< places that hold nothing; the others are in places_
  id_places places_;
  // These lists may also hold stages that were forgotten meanwhile.
  fifo<ended> closed_;  ///< ended since the last release
  fifo<ended> held_;    ///< ended earlier, but still wanted as far as is known
  fifo<passed> passed_;
  std::vector<aged> oldest_, oldest_with_requests_;  ///< to be given up, see give_up_first
  std::uint64_t entered_ = 0;                        ///< stages so far
  std::size_t request_bytes_ = 0;
  std::size_t keep_bytes_ = std::size_t{4} << 20, limit_bytes_ = std::size_t{12} << 20;
  std::int64_t delivered_ns_ = 0;
  recent last_;  ///< the stage that `open` or `place_of` was asked for last
  recent recent_[recent_count];
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
