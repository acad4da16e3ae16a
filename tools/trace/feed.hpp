// SPDX-License-Identifier: Apache-2.0
// From a reader to a sink: opens the sink, hands it events in batches, closes it with the totals, even where the file
// lacks them. Counts, marks events that come out of order, and drops descriptions that a further part repeats.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/sink.hpp>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/complaints.hpp"
#include "trace/memory_budget.hpp"
#include "trace/text_pool.hpp"

namespace cutrace_reading {

/// What a file says of its trace; owns its texts. Empty or 0: the file does not say.
struct trace_facts {
  std::string process_name, command_line, host_name, boot_id, backend, backend_detail, clock;
  std::uint32_t process_id = 0;
  std::int32_t rank = -1, world_size = 0;
  std::uint32_t part = 0;  ///< from 1 on, 0: the trace is in one file
  cutrace::clock_anchor start{};

  cutrace::trace_info info() const noexcept;
};

/// The first MiB of a text: no more of a fact or a note is kept.
inline std::string_view cut_fact(std::string_view s) noexcept { return s.substr(0, std::size_t{1} << 20); }

struct trace_totals {
  cutrace::stats totals{};
  cutrace::clock_anchor stop{};
  std::vector<std::string> notes;
  std::string missing;  ///< trace_summary::missing, empty for nothing

  /// Keeps 8 MiB of notes, several times what the merge of 512 processes has. Drops further ones; then the last note
  /// says so.
  void add_note(std::string_view note) {
    constexpr std::size_t limit = std::size_t{8} << 20;
    const bool fitted = note_bytes_ <= limit;
    note_bytes_ += note.size() + sizeof(std::string);
    if (note_bytes_ <= limit)
      notes.emplace_back(note);
    else if (fitted)
      notes.emplace_back("the file has further notes, more than are kept of it");
  }

 private:
  std::size_t note_bytes_ = 0;
};

class feed {
 public:
  feed(cutrace::sink& to, complaints& problems) : to_(to), problems_(problems) { batch_.reserve(batch_limit); }
  feed(const feed&) = delete;
  feed& operator=(const feed&) = delete;

  text_pool& texts() noexcept { return texts_; }
  complaints& problems() noexcept { return problems_; }

  /// The head of a file: opens the sink. For a further part of the same trace, `facts` are only compared. @throws
  /// reading_error for a part of another trace, or one that comes in a wrong order
  void open(trace_facts facts);
  bool is_open() const noexcept { return open_; }
  /// A further file begins.
  void next_file() noexcept { further_ = true; }
  /// @param part number of the part that begins, as in trace_facts; where it does not follow the part before, there is
  /// a hole. @throws reading_error for a number that is not above that of the part before, and behind the trace's end:
  /// what follows was read already
  void part_begins(std::uint32_t part);

  /// An event to fill in; `add` delivers it. Requests and arguments from the functions below.
  cutrace::event& begin() {
    if (!open_) open(trace_facts());
    batch_.emplace_back();
    return batch_.back();
  }
  void add(place at) {
    cutrace::event& e = batch_.back();
    if (e.is_description() ? !is_new(e) : is_out_of_order(e)) {
      if (e.is_description()) return void(batch_.pop_back());
      mark_late(e, at);
    }
    if (CUTRACE_UNLIKELY(begins_behind_hole_) && !e.is_description() && !e.late) begin_piece(e);
    if (e.start_ns >= window_end_ns_ && e.start_ns < behind_windows_ns_ && proves_recording(e))
      behind_windows_ns_ = e.start_ns;
    if (CUTRACE_UNLIKELY(e.kind == cutrace::event_kind::window)) {
      window_ends(e.end_ns);
      if (begins_behind_hole_ || !pieces_.empty()) return add_in_pieces(at);
    }
    count(e);
    take(at);
  }
  /// The event that was begun is not delivered.
  void cancel() noexcept { batch_.pop_back(); }

  cutrace::request_ref* requests(std::size_t n) { return request_room_.take(n); }
  cutrace::argument* arguments(std::size_t n) { return argument_room_.take(n); }
  /// Gives an event a copy of the arguments `all`, where its kind has arguments.
  void set_arguments(cutrace::event& e, const cutrace::argument* all, std::size_t count);
  template <class Arguments>
  void set_arguments(cutrace::event& e, const Arguments& all) {
    if (!all.empty()) set_arguments(e, all.data(), all.size());
  }
  /// Copies a text without interning it; valid as long as the arrays of `requests` and `arguments`.
  cutrace::text keep(std::string_view s) {
    char* const copy = text_room_.take(s.size() + 1);
    s.copy(copy, s.size());
    copy[s.size()] = '\0';
    return {copy, static_cast<std::uint32_t>(s.size())};
  }
  /// Number of this batch: an array of `requests` is valid as long as the number does not change.
  std::uint64_t batch() const noexcept { return batches_; }

  /// The end of a file that has an end with totals.
  void close(trace_totals totals);
  /// The end of a file that has an end without totals: `finish` counts them.
  void close_uncounted() noexcept { ended_ = true; }
  /// After all files. Where the trace has no end, the totals are those of what was read, and a note says so.
  void finish();

  std::uint64_t events() const noexcept { return events_; }
  /// trace_summary::missing; after `finish`.
  const std::string& missing() const noexcept { return totals_.missing; }
  std::uint64_t out_of_order() const noexcept { return out_of_order_; }
  const std::uint64_t (&kinds() const noexcept)[cutrace::event_kind_count] { return kinds_; }
  /// Whether the trace had its end.
  bool whole() const noexcept { return closed_ || ended_; }
  std::int64_t newest_ns() const noexcept { return newest_ns_ == least ? 0 : newest_ns_; }
  /// For formats in which later records complete an event: `finish` is called for each event before its delivery, when
  /// up to `kept_back_limit` further events have been read.
  void look_ahead(std::function<void(cutrace::event&)> finish) { finish_ = std::move(finish); }
  /// Formats without an order of their own: events are marked late without a complaint.
  void expect_no_order() noexcept { ordered_ = false; }

 private:
  static constexpr std::size_t batch_limit = 2048, kept_back_limit = 512;
  static constexpr std::size_t array_limit = std::size_t{1} << 16;
  static constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  /// Arrays that live until the batch after theirs is delivered: some events of a batch are kept back.
  template <class T>
  class array_room {
   public:
    T* take(std::size_t n) {
      used_ += n;
      if (now_.empty() || at_ + n > block_size_) {
        block_size_ = n > 4096 ? n : 4096;
        if (block_size_ == 4096 && !spare_.empty()) {
          now_.push_back(std::move(spare_.back()));
          spare_.pop_back();
        } else {
          now_.emplace_back(block_size_);
        }
        at_ = 0;
      }
      at_ += n;
      return now_.back().data() + (at_ - n);
    }
    void next_batch() {
      for (auto& b : before_)
        if (b.size() == 4096 && spare_.size() < 64) spare_.push_back(std::move(b));
      before_ = std::move(now_);
      now_.clear();
      at_ = used_ = 0;
    }
    std::size_t used() const noexcept { return used_; }

   private:
    using block = counted_vector<T>;
    std::vector<block> now_, before_, spare_;
    std::size_t block_size_ = 0, at_ = 0, used_ = 0;
  };

  bool is_out_of_order(const cutrace::event& e) noexcept {
    if (e.end_ns < newest_ns_) return !e.late;
    newest_ns_ = e.end_ns;
    return false;
  }
  /// Events come in the order of their ends, so a part has all events that ended since the end of its first event: a
  /// piece of the trace without holes begins there.
  void begin_piece(const cutrace::event& e) {
    begins_behind_hole_ = false;
    pieces_.push_back({e.end_ns, e.end_ns});
  }
  /// Whether such an event begins in recorded time only; GPU work may begin when a window that had its call has ended.
  static bool proves_recording(const cutrace::event& e) noexcept {
    return e.kind == cutrace::event_kind::api || e.kind == cutrace::event_kind::mark ||
           (e.kind == cutrace::event_kind::stage && !e.stage.adopted);
  }
  /// A window that the trace itself has, which does not count yet.
  void window_ends(std::int64_t end_ns) {
    const bool first = kinds_[static_cast<std::size_t>(cutrace::event_kind::window)] == 0;
    window_end_ns_ = first ? end_ns : std::max(window_end_ns_, end_ns);
    if (behind_windows_ns_ < window_end_ns_) behind_windows_ns_ = never;
  }
  void count(const cutrace::event& e) {
    ++kinds_[static_cast<std::size_t>(e.kind)];
    if (CUTRACE_UNLIKELY(e.kind == cutrace::event_kind::loss))
      lost_[static_cast<std::size_t>(e.loss.cause)] += e.loss.count;
    ++events_;
  }
  /// Takes the event that was begun, and delivers when there are enough.
  void take(place at) {
    last_place_ = at;
    if (batch_.size() >= batch_limit || request_room_.used() > array_limit || argument_room_.used() > array_limit ||
        text_room_.used() > 16 * array_limit)
      deliver(false);
  }
  void add_in_pieces(place at);
  void add_windows(bool lacks_events);
  std::string what_is_missing() const;
  bool is_new(const cutrace::event& e);
  void mark_late(cutrace::event& e, place at);
  void deliver(bool all);
  std::size_t prepare(bool all);

  cutrace::sink& to_;
  complaints& problems_;
  text_pool texts_;
  std::vector<cutrace::event> batch_;
  std::function<void(cutrace::event&)> finish_;
  /// Events at the begin of `batch_` that the last delivery kept back for the next one. Their arrays live until then.
  std::size_t kept_back_ = 0;
  place last_place_;
  array_room<cutrace::request_ref> request_room_;
  array_room<cutrace::argument> argument_room_;
  array_room<char> text_room_;
  trace_facts facts_;
  trace_totals totals_;
  std::set<std::string> described_;
  std::uint64_t kinds_[cutrace::event_kind_count] = {}, lost_[cutrace::loss_cause_count] = {};
  std::uint64_t events_ = 0, out_of_order_ = 0, batches_ = 1;
  std::int64_t newest_ns_ = least;
  /// End of the last window that the trace itself has, and begin of the first event that shows another one behind it.
  std::int64_t window_end_ns_ = never, behind_windows_ns_ = never;
  /// Stretches of the trace that were read, between holes; none: no hole.
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces_;
  std::uint32_t part_ = 0;  ///< number of the part that is read
  bool begins_behind_hole_ = false;
  bool open_ = false, closed_ = false, ended_ = false, further_ = false, ordered_ = true;
};

}  // namespace cutrace_reading
