// SPDX-License-Identifier: Apache-2.0
// Reads the track "cutrace" of a Perfetto trace: beginning and end of the trace, totals, its parts (files), and losses.
#include <cutrace/sinks/perfetto/fields.hpp>

#include "trace/pbf_value.hpp"
#include "trace/perfetto_reader.hpp"
#include "trace/text_front.hpp"

namespace cutrace_reading {

namespace pf = cutrace::detail::pf;
using cutrace::event_kind;

namespace {

/// Sets the count that a key names by `group` and a word of `Enum`, as "lost.chunk_full". @returns false for other keys
template <class Enum, std::size_t N>
bool count_of(std::string_view key, std::string_view group, std::uint64_t (&counts)[N], std::uint64_t value) noexcept {
  Enum which{};
  if (!take(key, group) || !take(key, ".") || !value_of<Enum, N>(key, which)) return false;
  counts[static_cast<std::size_t>(which)] = value;
  return true;
}

}  // namespace

bool perfetto_reader::read_about_note(std::string_view what, const parsed_note& n) {
  const auto text = [&n](std::string& to) { to = cut_fact(n.text); };
  if (what == "trace begins") {
    switch (word_key(n.name)) {
      case word_key("cutrace_version"):
        return true;
      case word_key("process"):
        return text(facts_.process_name), true;
      case word_key("command_line"):
        return text(facts_.command_line), true;
      case word_key("host"):
        return text(facts_.host_name), true;
      case word_key("boot_id"):
        return text(facts_.boot_id), true;
      case word_key("backend"):
        return text(facts_.backend), true;
      case word_key("backend_detail"):
        return text(facts_.backend_detail), true;
      case word_key("clock"):
        return text(facts_.clock), true;
      case word_key("clock_error_ns"):
        facts_.start.error_ns = n.value;
        return true;
      case word_key("rank"):
        facts_.rank = static_cast<std::int32_t>(n.value);
        return true;
      case word_key("world_size"):
        facts_.world_size = static_cast<std::int32_t>(n.value);
        return true;
      default:
        return false;
    }
  }
  if (what == "part ends" || what == "part begins") {
    if (n.name == "next") next_part_ = cut_fact(n.text);
    if (n.name == "part" && what == "part begins")
      begin_part(static_cast<std::uint32_t>(std::min<std::uint64_t>(n.value, UINT32_MAX)));
    return n.name == "next" || n.name == "part";
  }
  cutrace::stats& s = totals_.totals;
  if (count_of<cutrace::loss_cause>(n.name, "lost", s.lost, n.value) ||
      count_of<cutrace::quality>(n.name, "quality", s.quality_of, n.value) ||
      count_of<cutrace::attribution>(n.name, "unattributed", s.unattributed_by, n.value) ||
      count_of<cutrace::event_kind>(n.name, "kinds", s.by_kind, n.value))
    return true;
  std::string_view key = n.name;
  if (take(key, "sinks.")) {
    const std::size_t dot = key.rfind('.');
    if (dot == std::string_view::npos) return false;
    const std::string_view name = key.substr(0, dot), field = key.substr(dot + 1);
    if (field == "delivered") {
      if (s.sink_count >= cutrace::sink_limit) return false;
      cutrace::sink_stats& one = s.sinks[s.sink_count++];
      name.copy(one.name, sizeof(one.name) - 1);
      one.delivered = n.value;
    } else if (s.sink_count != 0) {
      cutrace::sink_stats& one = s.sinks[s.sink_count - 1];
      if (field == "written") one.written = n.value;
      if (field == "lost") one.lost = n.value;
      if (field == "failed") one.failed = n.value != 0;
      if (field == "failure") one.failure[n.text.copy(one.failure, sizeof(one.failure) - 1)] = '\0';
    }
    return true;
  }
  const auto count = [&n](std::uint64_t& to) { to = n.value; };
  switch (word_key(n.name)) {
    case word_key("produced"):
      return count(s.produced), true;
    case word_key("delivered"):
      return count(s.delivered), true;
    case word_key("pending"):
      return count(s.pending), true;
    case word_key("lost_total"):
    case word_key("overlapping_slices"):
      return true;
    case word_key("memory_bytes"):
      return count(s.memory_bytes), true;
    case word_key("memory_limit_bytes"):
      return count(s.memory_limit_bytes), true;
    case word_key("clock_error_ns"):
      return count(s.clock_error_ns), true;
    case word_key("launches_seen"):
      return count(s.launches_seen), true;
    case word_key("lacking"):
      return count(s.lacking), true;
    case word_key("gpu_records_seen"):
      return count(s.gpu_records_seen), true;
    case word_key("collector_cpu_ns"):
      return count(s.collector_cpu_ns), true;
    case word_key("missing"):
      totals_.missing = cut_fact(n.text);
      return true;
    case word_key("note"):
      return totals_.add_note(n.text), true;
    default:
      return false;
  }
}

void perfetto_reader::read_about(std::uint64_t ns, std::string_view what, pbf event) {
  perfetto_sequence none;
  while (event.next(pf::event_field::debug_annotations, protozero::pbf_wire_type::length_delimited)) {
    const parsed_note n = read_note(none, message(event));
    if (!read_about_note(what, n)) complain("unknown field \"" + std::string(n.name.substr(0, 64)) + "\"");
  }
  if (what == "trace begins") begin_part(1);
  if (what == "part ends") part_over_ = true;
  if (what == "trace ends") {
    open_trace();
    cutrace::clock_anchor& stop = totals_.stop;
    stop.trace_ns = session_ns(ns);
    // The clocks may have been read behind the end, while the last events were on their way.
    const std::uint64_t passed = ns - stop.monotonic_ns;
    for (std::uint64_t* const clock : {&stop.realtime_ns, &stop.boottime_ns, &stop.monotonic_ns})
      if (*clock != 0) *clock += passed;
    to_.close(totals_);
    const cutrace::clock_anchor last = stop;
    totals_ = trace_totals();
    totals_.stop = last;
    ended_ = true;
    next_part_.clear();
  }
}

void perfetto_reader::begin_part(std::uint32_t part) {
  if (facts_.part == 0) {
    facts_.part = part;  // open_trace begins it
  } else if (to_.is_open()) {
    to_.part_begins(part);
  } else {
    parts_begun_.push_back(part);
  }
}

void perfetto_reader::read_loss(std::int64_t ns, pbf event) {
  open_trace();
  perfetto_sequence none;
  cutrace::event e;
  e.kind = event_kind::loss;
  e.process_id = main_process_;
  e.start_ns = e.end_ns = ns;
  e.name = to_.texts().intern("lost records");
  while (event.next(pf::event_field::debug_annotations, protozero::pbf_wire_type::length_delimited)) {
    const parsed_note n = read_note(none, message(event));
    if (n.name == "count") e.loss.count = n.value;
    if (n.name == "cause" && !parse(n.text, e.loss.cause))
      complain("unknown word \"" + std::string(n.text.substr(0, 64)) + "\"");
  }
  to_.begin() = e;
  to_.add(at_);
}

}  // namespace cutrace_reading
