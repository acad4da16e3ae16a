// SPDX-License-Identifier: Apache-2.0
// Which slices may share one row of a viewer that reads rows as call stacks. Partly overlapping slices on one row are
// dropped or shown as errors there, so each row of the trace is split into as many lanes as it needs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <limits>
#include <memory>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// One lane. Remembers the outermost slices placed so far, in order; slices come roughly by their end. Bounded: when
/// there are too many, neighbours are joined, which may refuse a slice that fits, and never takes one that does not.
class slice_lane {
 public:
  /// `nesting`: slices may lie within each other (calls of a thread). Otherwise they may only follow each other (GPU).
  explicit slice_lane(bool nesting) : nesting_(nesting) { move_to(least_room); }

  /// Takes the half-open slice if it fits. `owner` names what directly encloses it (a stage), 0 nothing: no later slice
  /// encloses only one of two neighbours with the same owner once they are not `recent`, so joining them loses nothing.
  /// `late_apart`: a slice that comes late (it ends before one placed earlier) must not touch the next one either, for
  /// viewers that take equal times in the order of the file.
  CUTRACE_INLINE bool place(std::int64_t start_ns, std::int64_t end_ns, std::uint64_t owner, bool late_apart = false) {
    if (newest_end_ns_ > start_ns) return place_between(start_ns, end_ns, owner, late_apart);
    add(end_, start_ns, end_ns, owner);
    return true;
  }

 private:
  struct interval {
    std::int64_t start_ns;
    std::int64_t end_ns;
    std::uint64_t owner;
  };
  static constexpr std::size_t limit = 512;
  static constexpr std::size_t least_room = 8;
  static constexpr std::size_t recent = 64;  // a runtime call still encloses the driver calls right before it

  /// Puts a slice at `at`, as the last one.
  CUTRACE_INLINE void add(interval* at, std::int64_t start_ns, std::int64_t end_ns, std::uint64_t owner) {
    newest_end_ns_ = end_ns;
    put(at, start_ns, end_ns, owner);
    end_ = at + 1;
    if (CUTRACE_UNLIKELY(end_ == room_end_)) make_room();
  }
  /// Member by member: g++ 12 would make a copy, store its parts one by one and read them back together.
  CUTRACE_INLINE static void put(interval* at, std::int64_t start_ns, std::int64_t end_ns,
                                 std::uint64_t owner) noexcept {
    at->start_ns = start_ns;
    at->end_ns = end_ns;
    at->owner = owner;
  }

  CUTRACE_ONE_COPY bool place_between(std::int64_t start_ns, std::int64_t end_ns, std::uint64_t owner,
                                      bool late_apart) {
    interval* const begin = taken_.get();
    if (nesting_ && end_ns >= newest_end_ns_ && end_[-1].start_ns < end_ns) {
      // A slice around the newest ones, such as a stage: they are in order, so all that begin in it also end in it.
      interval* first = end_;
      while (first != begin && first[-1].start_ns > start_ns) --first;
      if (first != end_ && (first == begin || first[-1].end_ns <= start_ns)) {
        add(first, start_ns, end_ns, owner);
        return true;
      }
    }
    const bool apart = late_apart && end_ns < newest_end_ns_;
    interval* first = end_;  // slices from here on end after our start
    bool inside = false;
    for (; first != begin && first[-1].end_ns > start_ns; --first) {
      const interval& other = first[-1];
      if (other.start_ns < end_ns) {
        if (!nesting_ || !encloses(start_ns, end_ns, other)) return false;
        inside = true;
      } else if (apart && other.start_ns == end_ns) {
        return false;
      }
    }
    interval* last = first;  // what we enclose is [first, last)
    while (inside && last != end_ && last->start_ns < end_ns) ++last;
    std::memmove(first + 1, last, static_cast<std::size_t>(end_ - last) * sizeof(interval));
    put(first, start_ns, end_ns, owner);
    end_ += 1 - (last - first);
    newest_end_ns_ = std::max(newest_end_ns_, end_ns);
    if (end_ == room_end_) make_room();
    return true;
  }

  /// A parent that begins in the same nanosecond as its child would have to stand before the child in the file, and the
  /// child is written already. Only a slice with the same two times may enclose it.
  static bool encloses(std::int64_t start_ns, std::int64_t end_ns, const interval& inner) noexcept {
    if (inner.start_ns == start_ns) return inner.end_ns == end_ns;
    return start_ns < inner.start_ns && inner.end_ns <= end_ns;
  }

  std::size_t size() const noexcept { return static_cast<std::size_t>(end_ - taken_.get()); }

  /// Makes room for one more slice.
  CUTRACE_NOINLINE void make_room() {
    if (size() > limit) return compact();
    --end_;  // there is room even if memory runs out in the next line
    move_to(std::min(2 * (size() + 1), limit + 1), 1);
  }
  void move_to(std::size_t room, std::size_t more = 0) {
    std::unique_ptr<interval[]> larger(new interval[room]);
    const std::size_t taken = size() + more;
    std::copy_n(taken_.get(), taken, larger.get());
    taken_ = std::move(larger);
    end_ = taken_.get() + taken;
    room_end_ = taken_.get() + room;
  }

  void compact() {
    join([](const interval& a, const interval& b) { return a.owner == b.owner; });
    if (size() > limit / 2) join([](const interval&, const interval&) { return true; });
  }

  template <class Same>
  void join(Same same) {
    interval* const old = end_ - recent;
    interval* to = taken_.get();
    for (const interval* from = to + 1; from != end_; ++from) {
      if (from < old && same(*to, *from)) {
        to->end_ns = from->end_ns;
      } else {
        *++to = *from;
      }
    }
    end_ = to + 1;
  }

  std::unique_ptr<interval[]> taken_;
  interval *end_ = nullptr, *room_end_ = nullptr;
  std::int64_t newest_end_ns_ = std::numeric_limits<std::int64_t>::min();
  bool nesting_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
