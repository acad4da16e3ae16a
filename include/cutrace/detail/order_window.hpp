// SPDX-License-Identifier: Apache-2.0
// Events wait here until no earlier one is to be expected, and leave ordered by their end. Bounded: when the window is
// full its oldest part leaves early, and what comes after that is marked late. Collector's thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/detail/sort_runs.hpp>
#include <cutrace/event.hpp>
#include <cutrace/request.hpp>
#include <deque>
#include <memory>
#include <new>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// An event whose stage and requests are not looked up yet. Times are still those of the raw frame.
struct pending_event : event {
  std::uint64_t request_word = 0;
  std::uint64_t request_owner = 0;
  request_form form = request_form::none;
  std::uint32_t words_at = 0;     ///< api: arguments, in the words of its bucket
  std::uint32_t call_thread = 0;  ///< GPU work: index of the thread of its call
};

/// Events one after the other in blocks that go round: appending moves nothing, and no memory is returned to the
/// system and faulted in again while the trace goes on (growing vectors took a quarter of the collector's time).
class event_blocks {
 public:
  static constexpr std::size_t block_events = 128;
  using block = std::unique_ptr<pending_event[]>;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  pending_event& operator[](std::size_t i) noexcept { return blocks_[i / block_events][i % block_events]; }

  /// One more, with what was there before in it. Takes a block of `spare` where it needs one.
  pending_event& append(std::vector<block>& spare) {
    if (size_ == blocks_.size() * block_events) add_block(spare);
    return (*this)[size_++];
  }
  void take_back() noexcept { --size_; }
  /// Empties itself into `spare`, which keeps `limit` blocks at the most.
  void clear(std::vector<block>& spare, std::size_t limit) {
    for (block& b : blocks_)
      if (spare.size() < limit) spare.push_back(std::move(b));
    blocks_.clear();
    size_ = 0;
  }

 private:
  CUTRACE_NOINLINE void add_block(std::vector<block>& spare) {
    if (spare.empty()) spare.emplace_back(new pending_event[block_events]);
    blocks_.push_back(std::move(spare.back()));
    spare.pop_back();
  }

  std::vector<block> blocks_;
  std::size_t size_ = 0;
};

class order_window {
 public:
  struct place {
    std::int64_t end_ns;
    std::int64_t start_ns;
    std::uint32_t index;
  };
  struct bucket {
    event_blocks events;
    std::vector<std::uint64_t> words;
    std::vector<place> order;  ///< of `events`, sorted once the bucket is handed over: places are small, events are not
  };

  void configure(std::uint64_t window_ns, std::size_t limit_bytes) {
    window_ns_ = window_ns;
    width_ns_ = std::max<std::uint64_t>(window_ns / 16, 1000000);
    limit_events_ = std::max<std::size_t>(limit_bytes / (sizeof(pending_event) + 16), 256);
  }
  std::uint64_t window_ns() const noexcept { return window_ns_; }
  /// Raw time of the pass that pushes: nothing can have ended later.
  void set_now(std::uint64_t now_ns) noexcept { now_ns_ = now_ns; }
  std::size_t size() const noexcept { return size_; }
  static constexpr const char* full_note =
      "events came faster than the ordering window has room for: some are delivered behind later ones and marked late; "
      "raise CUTRACE_MEMORY_LIMIT";
  bool over_limit() const noexcept { return size_ > limit_events_; }

  /// A new event of these times, to be filled in where it will stay: a copy would cost a fifth of the collector's time.
  /// Valid until the next one.
  pending_event& append(std::int64_t start_ns, std::int64_t end_ns) {
    // A time that claims to lie in the future, or before the machine was started, must not move the window.
    const std::uint64_t end = end_ns > 0 ? static_cast<std::uint64_t>(end_ns) : 0;
    const std::uint64_t number = std::min(end, now_ns_) / width_ns_;
    if (buckets_.empty()) {
      first_ = std::max(number, first_);
      buckets_.push_back(fresh());
    }
    std::uint64_t at = number > first_ ? number - first_ : 0;  // latecomers go into the oldest part there is
    at = std::min<std::uint64_t>(at, bucket_limit - 1);  // and what claims to be far in the future into the newest
    while (buckets_.size() <= at) buckets_.push_back(fresh());
    last_ = &buckets_[static_cast<std::size_t>(at)];
    last_->order.push_back({end_ns, start_ns, static_cast<std::uint32_t>(last_->events.size())});
    ++size_;
    pending_event* const p = new (&last_->events.append(spare_blocks_)) pending_event;
    p->start_ns = start_ns;
    p->end_ns = end_ns;
    return *p;
  }
  /// The arguments of the event that was appended last.
  void add_words(pending_event& p, const std::uint64_t* words, std::uint32_t count) {
    p.words_at = static_cast<std::uint32_t>(last_->words.size());
    last_->words.insert(last_->words.end(), words, words + count);
  }
  /// Its arguments with their names, three words each, no more than `described_limit`.
  std::uint32_t add_described(pending_event& p, const argument* arguments, std::uint32_t count) {
    count = std::min(count, described_limit);
    p.words_at = static_cast<std::uint32_t>(last_->words.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      const argument& a = arguments[i];
      last_->words.push_back(argument::word_of(a.name.data));
      last_->words.push_back(std::uint64_t{a.name.size} << 32 | static_cast<std::uint64_t>(a.kind));
      last_->words.push_back(a.value);
    }
    return count;
  }
  static argument described(const std::uint64_t* words) noexcept {
    argument a;
    a.name = {reinterpret_cast<const char*>(words[0]), static_cast<std::uint32_t>(words[1] >> 32)};
    a.kind = static_cast<argument_kind>(words[1] & 0xff);
    a.value = words[2];
    return a;
  }
  static constexpr std::uint32_t described_limit = 10;
  /// The event that was appended last is none after all.
  void take_back() noexcept {
    last_->order.pop_back();
    last_->events.take_back();
    --size_;
  }

  /// Hands over, ordered, all parts that lie before `watermark_ns`, and as many more as it takes to get below the
  /// limit. `deliver(bucket&)` is called for each.
  template <class Deliver>
  void advance(std::uint64_t watermark_ns, Deliver deliver) {
    while (!buckets_.empty() && ((first_ + 1) * width_ns_ <= watermark_ns || over_limit())) {
      bucket b = std::move(buckets_.front());
      buckets_.pop_front();
      ++first_;
      size_ -= b.events.size();
      sort(b);
      if (!b.events.empty()) deliver(b);
      b.events.clear(spare_blocks_, limit_events_ / event_blocks::block_events);
      b.words.clear();
      b.order.clear();
      if (spare_.size() < 4) spare_.push_back(std::move(b));
    }
  }

  /// Watermark behind all that can be in the window.
  static constexpr std::uint64_t everything = ~std::uint64_t{0};
  /// Hands over everything.
  template <class Deliver>
  void drain(Deliver deliver) {
    advance(everything, deliver);
  }

  std::uint64_t bytes() const noexcept {
    return (size_ + spare_blocks_.size() * event_blocks::block_events) * sizeof(pending_event);
  }

 private:
  static constexpr std::size_t bucket_limit = 1024;

  /// By end; of two that end together the one that encloses the other goes first; equal ones as they came.
  void sort(bucket& b) {
    sort_runs(b.order, runs_, merged_, [](const place& x, const place& y) {
      return x.end_ns != y.end_ns ? x.end_ns < y.end_ns : x.start_ns < y.start_ns;
    });
  }

  CUTRACE_NOINLINE bucket fresh() {
    if (spare_.empty()) return {};
    bucket b = std::move(spare_.back());
    spare_.pop_back();
    return b;
  }

  std::vector<std::size_t> runs_;  ///< scratch of `sort`, as is the next
  std::vector<place> merged_;
  std::deque<bucket> buckets_;
  bucket* last_ = nullptr;  ///< of the event that was appended last
  std::vector<bucket> spare_;
  std::vector<event_blocks::block> spare_blocks_;
  std::uint64_t first_ = 0;  ///< number of the oldest bucket: time / width
  std::uint64_t now_ns_ = ~std::uint64_t{0};
  std::uint64_t width_ns_ = 20000000;
  std::uint64_t window_ns_ = 500000000;
  std::size_t limit_events_ = 0;
  std::size_t size_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
