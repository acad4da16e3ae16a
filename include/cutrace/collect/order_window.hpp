// SPDX-License-Identifier: Apache-2.0
// Events wait here until no earlier one is to be expected, and leave ordered by their end. Bounded: when the window is
// full its oldest part leaves early, and what comes after that is marked late. Collector's thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/collect/memory_blocks.hpp>
#include <cutrace/collect/pending.hpp>
#include <cutrace/config.hpp>
#include <deque>
#include <new>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

// A stable sort for what is made of few ascending runs, such as the records of threads that were read in turn: a
// natural merge sort. A run that was read later is mostly later in time as well, and only the part where two of them
// overlap is moved. With std::stable_sort an event costs the collector 149 ns instead of 141 (bench/sink_cost, null).

/// Sorts [from, to), which is two ascending runs that meet at `middle`, neither of them empty. `scratch`: any content.
template <class T, class Less>
void merge_runs(T* from, T* middle, T* to, std::vector<T>& scratch, Less less) {
  from = std::upper_bound(from, middle, *middle, less);
  if (from == middle) return;
  to = std::lower_bound(middle, to, middle[-1], less);
  scratch.assign(from, middle);
  const T *a = scratch.data(), *b = middle;
  const T* const a_end = a + scratch.size();
  // The greatest element is from `a`, so `b` is used up first. No branch on the comparison: which of two threads was
  // first is what no processor predicts.
  while (b != to) {
    const bool second = less(*b, *a);
    *from++ = *(second ? b : a);
    a += second ? 0 : 1;
    b += second ? 1 : 0;
  }
  std::copy(a, a_end, from);
}

/// Sorts `list`, equal elements in their order. `runs` and `scratch` keep their memory for the next call.
template <class T, class Less>
void sort_runs(std::vector<T>& list, std::vector<std::size_t>& runs, std::vector<T>& scratch, Less less) {
  runs.clear();  // where each run begins, and the end
  runs.push_back(0);
  for (std::size_t i = 1; i < list.size(); ++i)
    if (less(list[i], list[i - 1])) runs.push_back(i);
  runs.push_back(list.size());
  T* const from = list.data();
  while (runs.size() > 2) {
    std::size_t kept = 1;
    for (std::size_t r = 2; r < runs.size(); r += 2) {
      merge_runs(from + runs[r - 2], from + runs[r - 1], from + runs[r], scratch, less);
      runs[kept++] = runs[r];
    }
    if (runs.size() % 2 == 0) runs[kept++] = runs.back();  // one without a partner
    runs.resize(kept);
  }
}

class order_window {
 public:
  enum class form : std::uint8_t { whole, host, work };
  static constexpr std::uintptr_t form_mask = 3;
  struct place {
    std::int64_t end_ns;
    std::int64_t start_ns;
    std::uintptr_t where;  ///< address of the event, and its form in the bits that are always 0 there

    form kind() const noexcept { return static_cast<form>(where & form_mask); }
    const char* address() const noexcept { return reinterpret_cast<const char*>(where & ~form_mask); }
    /// `T`: pending_event, pending_host or pending_work, as the form says.
    template <class T>
    T& as() const noexcept {
      return *reinterpret_cast<T*>(where & ~form_mask);
    }
  };
  /// Vectors take up to twice what stands in them, and sorting needs room for as many places again.
  static constexpr std::size_t place_bytes = 3 * sizeof(place), word_bytes = 2 * sizeof(std::uint64_t);
  struct bucket {
    block_list<pending_event> events;
    block_list<pending_host> hosts;
    block_list<pending_work> works;
    block_list<work_shape> shapes;
    std::vector<std::uint64_t> words;
    std::vector<place> order;  ///< sorted once the bucket is handed over: places are small, events are not
    std::uint64_t number = 0;  ///< no other bucket has or had it

    std::size_t bytes() const noexcept {
      return events.size() * sizeof(pending_event) + hosts.size() * sizeof(pending_host) +
             works.size() * sizeof(pending_work) + shapes.size() * sizeof(work_shape) + order.size() * place_bytes +
             words.size() * word_bytes;
    }
  };

  void configure(std::uint64_t window_ns, std::size_t limit_bytes) {
    window_ns_ = window_ns;
    width_ns_ = std::max<std::uint64_t>(window_ns / 16, 1000000);
    set_limit(limit_bytes);
    spare_blocks_.set_limit(limit_bytes_);
  }
  void set_limit(std::size_t bytes) noexcept {
    limit_bytes_ = std::max<std::size_t>(bytes, 256 * (sizeof(pending_event) + place_bytes));
  }
  std::uint64_t window_ns() const noexcept { return window_ns_; }
  /// Raw time at which the events that will be appended had ended.
  void set_now(std::uint64_t now_ns) noexcept { now_ns_ = now_ns; }
  std::size_t size() const noexcept {
    std::size_t n = 0;
    for (const bucket& b : buckets_) n += b.order.size();
    return n;
  }
  static constexpr const char* full_note =
      "events came faster than the ordering window has room for: some are delivered behind later ones and marked late; "
      "raise CUTRACE_MEMORY_LIMIT";
  bool over_limit() const noexcept { return used_bytes_ > limit_bytes_; }

  /// A new event of these times, to be filled in where it will stay: a copy would cost a fifth of the collector's time.
  /// Valid until the next one.
  pending_event& append(std::int64_t start_ns, std::int64_t end_ns) {
    bucket& b = bucket_of(end_ns);
    pending_event& p = add(b, b.events, start_ns, end_ns, form::whole);
    p.start_ns = start_ns;
    p.end_ns = end_ns;
    return p;
  }
  /// As `append`, for the short forms, whose members hold anything before they are filled in.
  pending_host& append_host(std::int64_t start_ns, std::int64_t end_ns) {
    bucket& b = bucket_of(end_ns);
    return add(b, b.hosts, start_ns, end_ns, form::host);
  }
  /// As append_host; `shape` is set to the work_shape of `e`.
  pending_work& append_work(const event& e) {
    bucket& b = bucket_of(e.end_ns);
    const work_shape* const shape = shape_of(b, e);
    pending_work& p = add(b, b.works, e.start_ns, e.end_ns, form::work);
    p.shape = shape;
    return p;
  }
  /// Arguments of the event that was appended last. @returns where they are in its bucket
  std::uint32_t add_words(const std::uint64_t* words, std::size_t count) {
    const std::size_t at = last_->words.size();
    last_->words.insert(last_->words.end(), words, words + count);
    used_bytes_ += count * word_bytes;
    return static_cast<std::uint32_t>(at);
  }
  /// Removes the event that was appended last, which must be a whole one.
  void take_back() noexcept {
    last_->order.pop_back();
    last_->events.take_back();
    used_bytes_ -= sizeof(pending_event) + place_bytes;
    --appended_;
  }
  /// Events that have ever been appended and stayed.
  std::uint64_t appended() const noexcept { return appended_; }

  /// Hands over, ordered, all buckets that lie before `watermark_ns`, and as many more as it takes to get below the
  /// limit. `deliver(bucket&)` is called for each.
  template <class Deliver>
  void advance(std::uint64_t watermark_ns, Deliver deliver) {
    while (!buckets_.empty() && ((first_ + 1) * width_ns_ <= watermark_ns || over_limit())) {
      bucket b = std::move(buckets_.front());
      buckets_.pop_front();
      ++first_;
      last_ = nullptr;
      used_bytes_ -= b.bytes();
      struct at_end {  // also where there is no memory to sort or to deliver
        bucket& done;
        block_store& to;
        ~at_end() {
          done.events.clear(to);
          done.hosts.clear(to);
          done.works.clear(to);
          done.shapes.clear(to);
        }
      };
      {
        const at_end blocks{b, spare_blocks_};
        try {
          sort(b);
        } catch (const std::bad_alloc&) {  // then they come as they are, and late where they are behind others
        }
        if (!b.order.empty()) deliver(b);
      }
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

  std::uint64_t bytes() const noexcept { return used_bytes_ + spare_blocks_.bytes(); }
  /// All events that ended before this time have been handed over, except for late ones.
  std::uint64_t delivered_ns() const noexcept { return buckets_.empty() ? everything : first_ * width_ns_; }
  /// Calls `visit(pending_host)` for all stages and calls of that form.
  template <class Visit>
  void for_each_host(Visit visit) const {
    for (const bucket& b : buckets_)
      for (const place& p : b.order)
        if (p.kind() == form::host) visit(p.as<const pending_host>());
  }

 private:
  static constexpr std::size_t bucket_limit = 1024;

  struct known_shape {
    std::uint64_t bucket = 0;  ///< number of the bucket that has it; 0: unused. No number is used again
    const work_shape* shape = nullptr;
  };

  /// The bucket for an end. Nearly always that of the event before: no division.
  bucket& bucket_of(std::int64_t end_ns) {
    // A time that claims to lie in the future, or before the machine was started, must not move the window.
    const std::uint64_t end = std::min(end_ns > 0 ? static_cast<std::uint64_t>(end_ns) : 0, now_ns_);
    if (CUTRACE_LIKELY(last_ != nullptr && end - last_from_ns_ < last_size_ns_)) return *last_;
    return find_bucket(end / width_ns_);
  }
  CUTRACE_ONE_COPY bucket& find_bucket(std::uint64_t number) {
    if (buckets_.empty()) {
      first_ = std::max(number, first_);
      buckets_.push_back(fresh());
    }
    std::uint64_t at = number > first_ ? number - first_ : 0;  // late events go into the oldest bucket
    at = std::min<std::uint64_t>(at, bucket_limit - 1);        // and ends far in the future into the newest
    while (buckets_.size() <= at) buckets_.push_back(fresh());
    last_ = &buckets_[static_cast<std::size_t>(at)];
    // The oldest bucket also takes events that ended before it begins: while the window is too small, nearly all do.
    last_from_ns_ = at != 0 ? (first_ + at) * width_ns_ : 0;
    last_size_ns_ = at != 0 ? width_ns_ : (first_ + 1) * width_ns_;
    return *last_;
  }

  template <class T>
  T& add(bucket& b, block_list<T>& list, std::int64_t start_ns, std::int64_t end_ns, form kind) {
    if (CUTRACE_UNLIKELY(b.order.size() == b.order.capacity())) b.order.reserve(2 * b.order.size() + 1024);
    T& added = list.append(spare_blocks_);
    b.order.emplace_back();  // has room: no place without its event, no event without its place
    place& p = b.order.back();
    p.end_ns = end_ns;
    p.start_ns = start_ns;
    static_assert(alignof(T) > form_mask, "its address has room for the form");
    p.where = reinterpret_cast<std::uintptr_t>(&added) | static_cast<std::uintptr_t>(kind);
    used_bytes_ += sizeof(T) + place_bytes;
    ++appended_;
    return added;
  }

  /// The work_shape of `e`: one that the bucket has already, if it was used recently, else a new one. A kernel that
  /// finds its shape takes 136 bytes of the window, one that adds it 224: if only the last shape were remembered,
  /// launches of several shapes by turns would make the window overflow that much earlier. (Time: 141 ns an event with
  /// 256 entries in `shapes_`, 137 with one, bench/sink_cost, null.)
  CUTRACE_INLINE const work_shape* shape_of(bucket& b, const event& e) {
    std::uint64_t w[8];  // all of them: launches by turns may differ in any
    static_assert(sizeof(w) == work_shape::size, "what is compared");
    std::memcpy(w, &e.kernel, sizeof(w));
    const std::uint64_t mixed = (w[0] ^ w[4]) + 3 * (w[1] ^ w[5]) + 5 * (w[2] ^ w[6]) + 9 * (w[3] ^ w[7]);
    const std::uint64_t key = mixed + reinterpret_cast<std::uintptr_t>(e.name.data) + b.number;
    known_shape& k = shapes_[key * 0x9E3779B97F4A7C15u >> 56];  // Fibonacci hashing
    if (CUTRACE_LIKELY(k.bucket == b.number && k.shape->is_of(e))) return k.shape;
    return add_shape(k, b, e);
  }
  CUTRACE_NOINLINE const work_shape* add_shape(known_shape& k, bucket& b, const event& e) {
    work_shape& s = b.shapes.append(spare_blocks_);
    s.keep(e);
    used_bytes_ += sizeof(work_shape);
    k = {b.number, &s};
    return &s;
  }

  /// By end; of two that end together the one that encloses the other goes first; equal ones as they came.
  void sort(bucket& b) {
    sort_runs(b.order, runs_, scratch_, [](const place& x, const place& y) {
      const int ends = x.end_ns < y.end_ns, same = x.end_ns == y.end_ns, starts = x.start_ns < y.start_ns;
      return (ends | (same & starts)) != 0;  // no branch: see merge_runs
    });
  }

  CUTRACE_NOINLINE bucket fresh() {
    bucket b;
    if (!spare_.empty()) {
      b = std::move(spare_.back());
      spare_.pop_back();
    }
    b.number = ++buckets_made_;
    return b;
  }

  known_shape shapes_[256];
  std::uint64_t buckets_made_ = 0;
  std::vector<std::size_t> runs_;  ///< scratch of `sort`, as is the next
  std::vector<place> scratch_;
  block_store spare_blocks_;  ///< outlives the buckets below, which hold its blocks
  std::deque<bucket> buckets_;
  bucket* last_ = nullptr;          ///< of the event that was appended last, while that is in the window
  std::uint64_t last_from_ns_ = 0;  ///< where that bucket begins
  std::uint64_t last_size_ns_ = 0;  ///< and how far it goes
  std::vector<bucket> spare_;
  std::uint64_t first_ = 0;  ///< number of the oldest bucket: time / width
  std::uint64_t now_ns_ = ~std::uint64_t{0};
  std::uint64_t width_ns_ = 20000000;
  std::uint64_t window_ns_ = 500000000;
  std::size_t limit_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::uint64_t appended_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
