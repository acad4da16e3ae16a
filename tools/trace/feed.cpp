// SPDX-License-Identifier: Apache-2.0
#include "trace/feed.hpp"

#include <algorithm>
#include <cutrace/analysis/intervals.hpp>
#include <cutrace/event_fields.hpp>
#include <type_traits>

namespace cutrace_reading {

cutrace::trace_info trace_facts::info() const noexcept {
  cutrace::trace_info i{};
  i.process_id = process_id;
  i.process_name = process_name.c_str();
  i.command_line = command_line.c_str();
  i.host_name = host_name.c_str();
  i.boot_id = boot_id.c_str();
  i.backend = backend.c_str();
  i.backend_detail = backend_detail.c_str();
  i.clock = clock.c_str();
  i.rank = rank;
  i.world_size = world_size;
  i.start = start;
  return i;
}

namespace {

/// The clocks of a broken file: differences of what is left fit a signed number.
void bound(cutrace::clock_anchor& a) {
  constexpr std::uint64_t limit_ns = std::uint64_t{1} << 62;
  a.trace_ns = cutrace::analysis::time_of(a.trace_ns);
  for (std::uint64_t* const ns : {&a.realtime_ns, &a.monotonic_ns, &a.boottime_ns, &a.error_ns})
    *ns = std::min(*ns, limit_ns);
}

}  // namespace

void feed::open(trace_facts facts) {
  bound(facts.start);
  if (open_) {
    const bool same = facts.process_id == facts_.process_id && facts.host_name == facts_.host_name &&
                      facts.start.monotonic_ns == facts_.start.monotonic_ns &&
                      facts.start.realtime_ns == facts_.start.realtime_ns;
    if (!same)
      throw reading_error("the files are of different traces (process " + std::to_string(facts_.process_id) + " and " +
                          std::to_string(facts.process_id) +
                          ", or different runs); only the parts of one trace can be given together");
    return part_begins(facts.part);
  }
  facts_ = std::move(facts);
  open_ = true;
  part_begins(facts_.part);
  to_.open(facts_.info());
}

void feed::close(trace_totals totals) {
  totals_ = std::move(totals);
  bound(totals_.stop);
  closed_ = true;
}

void feed::part_begins(std::uint32_t part) {
  if (part == 0) part = 1;  // the trace is in one file
  if (part <= part_ || closed_)
    throw reading_error("part " + std::to_string(part) + " of the trace stands behind " +
                        (closed_ ? "the end of the trace" : "part " + std::to_string(part_)) +
                        ": give one file that has all of it, or each part once, in the order of their numbers (ls -v "
                        "lists them so)");
  if (part > part_ + 1) {
    // Of a trace without its first parts nothing is said: whoever writes parts may keep the last ones only.
    if (part_ != 0)
      problems_.add(
          "what lies between parts " + std::to_string(part_) + " and " + std::to_string(part) + " was not given", {});
    if (part_ != 0 && pieces_.empty()) pieces_.push_back({facts_.start.trace_ns, 0});
    if (!pieces_.empty()) pieces_.back().second = newest_ns();
    begins_behind_hole_ = true;
    behind_windows_ns_ = never;
  }
  part_ = part;
}

/// A window that the trace itself has, begun in the batch: only the parts of it that were read. What lies in a missing
/// part is unknown, although it was recorded.
void feed::add_in_pieces(place at) {
  cutrace::event window = batch_.back();
  count(window);  // once, however many pieces it has
  window.more = {};
  cancel();
  const std::int64_t begin_ns = window.start_ns, end_ns = window.end_ns;
  const bool late = window.late;
  bool any = false;
  const auto add_piece = [&](std::int64_t from_ns, std::int64_t to_ns) {
    window.start_ns = from_ns;
    window.end_ns = to_ns;
    window.late = late || to_ns < newest_ns_;
    begin() = window;
    take(at);
    any = true;
  };
  // Of very many the newest ones, or a small file with many windows would have any number of events.
  constexpr std::size_t limit = 64;
  for (std::size_t i = pieces_.size() - std::min(pieces_.size(), limit); i < pieces_.size(); ++i) {
    const bool goes_on = i + 1 == pieces_.size() && !begins_behind_hole_;
    const std::int64_t from_ns = std::max(begin_ns, pieces_[i].first);
    const std::int64_t to_ns = goes_on ? end_ns : std::min(end_ns, pieces_[i].second);
    if (from_ns < to_ns) add_piece(from_ns, to_ns);
  }
  if (!any) add_piece(end_ns, end_ns);  // empty: without any window, all of the time would be recorded
}

/// Adds windows of what was recorded, if parts are missing or a file was full: time outside them is unknown, not idle.
/// Not for what an end says that it lacks (the file was made so from another one): that was lost or left out all along,
/// and the other one's windows are in the file.
void feed::add_windows(bool lacks_events) {
  if (kinds_[static_cast<std::size_t>(cutrace::event_kind::window)] != 0) {
    // The trace itself has them, except the one that was open when it was cut short.
    if (whole() || behind_windows_ns_ == never) return;
    const std::int64_t from_ns = pieces_.empty() ? least : pieces_.back().first;
    pieces_.assign(1, {std::max(from_ns, behind_windows_ns_), newest_ns()});
  } else if (pieces_.empty()) {
    if (!closed_ || !lacks_events) return;  // without an end, the trace ends with its newest event
    pieces_.push_back({facts_.start.trace_ns, newest_ns()});
  } else if (!begins_behind_hole_) {
    pieces_.back().second = closed_ ? std::max(totals_.stop.trace_ns, newest_ns()) : newest_ns();
  }
  for (const auto& p : pieces_) {  // such windows do not count: no file has them
    if (p.first >= p.second) continue;
    cutrace::event& e = begin();
    e.kind = cutrace::event_kind::window;
    e.process_id = facts_.process_id;
    e.name = {"recorded", 8};
    e.start_ns = p.first;
    e.end_ns = p.second;
    e.late = true;
    take(last_place_);
  }
}

/// False for a description that a further part repeats: the same bytes, since equal texts are interned once.
bool feed::is_new(const cutrace::event& e) {
  if (described_.size() >= 65536) return true;
  cutrace::event words = e;
  words.more = {};  // the only text that is not interned
  return described_.emplace(reinterpret_cast<const char*>(&words), sizeof(words)).second || !further_;
}

void feed::mark_late(cutrace::event& e, place at) {
  e.late = true;
  ++out_of_order_;
  if (ordered_) problems_.add("an event that ends before others ended, and is not marked late", at);
}

/// Finishes those of the batch that are to be delivered now. @returns how many
std::size_t feed::prepare(bool all) {
  const std::size_t n =
      all ? batch_.size() : std::max(batch_.size() - std::min(kept_back_limit, batch_.size()), kept_back_);
  for (std::size_t i = 0; i < n; ++i) finish_(batch_[i]);
  return n;
}

void feed::deliver(bool all) {
  if (batch_.empty()) return;
  const std::size_t n = finish_ ? prepare(all) : batch_.size();
  to_.write({batch_.data(), n});
  batch_.erase(batch_.begin(), batch_.begin() + static_cast<std::ptrdiff_t>(n));
  kept_back_ = batch_.size();
  request_room_.next_batch();
  argument_room_.next_batch();
  text_room_.next_batch();
  ++batches_;
}

/// A trace without an end has no totals to go by. Descriptions are not counted: formats repeat them or leave them out.
std::string feed::what_is_missing() const {
  if (!whole()) return "no end: the trace was cut short, or is still being written";
  if (!closed_) return {};
  std::uint64_t missing = 0, all = 0;
  for (std::size_t k = 0; k < cutrace::event_kind_count; ++k) {
    cutrace::event e{};
    e.kind = static_cast<cutrace::event_kind>(k);
    if (e.is_description()) continue;
    const std::uint64_t there = totals_.totals.by_kind[k];
    all += there;
    missing += there - std::min(there, kinds_[k]);
  }
  if (missing == 0) return {};
  return std::to_string(missing) + " of " + std::to_string(all) + " events are not in what was read";
}

void feed::finish() {
  if (!open_) open(trace_facts());
  const std::string lacks = what_is_missing();
  if (totals_.missing.empty()) totals_.missing = lacks;
  add_windows(!lacks.empty());
  deliver(true);
  if (texts_.not_kept() != 0) {
    problems_.add("more names than the memory limit allows: " + std::to_string(texts_.not_kept()) +
                      " of them stand as \"" + std::string(text_pool::overflow_text) + "\"",
                  {});
  }
  if (!closed_) {
    cutrace::stats& s = totals_.totals;
    std::copy(std::begin(kinds_), std::end(kinds_), std::begin(s.by_kind));
    std::copy(std::begin(lost_), std::end(lost_), std::begin(s.lost));
    s.delivered = events_;
    s.produced = events_ + s.lost_total();
    totals_.stop = facts_.start;
    totals_.stop.trace_ns = newest_ns();
    // Of a broken file's times, too, whose difference need not fit a signed number.
    const auto passed = static_cast<std::uint64_t>(newest_ns()) - static_cast<std::uint64_t>(facts_.start.trace_ns);
    totals_.stop.realtime_ns += passed;
    totals_.stop.monotonic_ns += passed;
    totals_.stop.boottime_ns += passed;
  }
  if (problems_.total() != 0) {
    totals_.notes.push_back("read from a file with " + std::to_string(problems_.total()) +
                            " complaints, the first: " + sentence_of(problems_.kinds().front()));
  }
  std::vector<const char*> notes;
  for (const std::string& n : totals_.notes) notes.push_back(n.c_str());
  cutrace::trace_summary summary{};
  summary.stop = totals_.stop;
  summary.totals = totals_.totals;
  summary.notes = notes.data();
  summary.note_count = static_cast<std::uint32_t>(notes.size());
  if (!totals_.missing.empty()) summary.missing = totals_.missing.c_str();
  to_.close(summary);
}

void feed::set_arguments(cutrace::event& e, const cutrace::argument* all, std::size_t count) {
  const auto set = [&](const auto& field) {
    if constexpr (std::decay_t<decltype(field)>::form == cutrace::field_form::arguments) {
      cutrace::argument* const copy = arguments(count);
      std::copy(all, all + count, copy);
      field.of(e).arguments = copy;
      field.of(e).argument_count = static_cast<std::uint32_t>(count);
    }
  };
  cutrace::with_fields(e.kind, [&](const auto&... field) { (set(field), ...); });
}

}  // namespace cutrace_reading
