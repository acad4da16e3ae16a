// SPDX-License-Identifier: Apache-2.0
#include "trace/json_facts.hpp"

#include <algorithm>

namespace cutrace_reading {

namespace {

/// Calls `use(key, value)` for each field.
template <class Use>
value_state each_field(json_value& v, Use use) {
  json_object object;
  const value_state state = state_of(v.get_object().get(object));
  if (state != value_state::good) return state;
  for (auto result : object) {
    simdjson::ondemand::field f;
    if (std::move(result).get(f) != simdjson::SUCCESS) return value_state::broken;
    const std::string_view key = raw_key(f);
    use(key, f.value());
  }
  return value_state::good;
}

value_state read_string(json_value& v, std::string& to) {
  std::string_view s;
  const value_state state = read_text(v, s);
  if (state == value_state::good) to = cut_fact(s);
  return state;
}

value_state read_clocks(json_value& v, cutrace::clock_anchor& a, field_watch& watch) {
  return each_field(v, [&](std::string_view key, json_value& n) {
    switch (word_key(key)) {
      case word_key("trace_ns"):
        return watch.check(key, read_signed(n, a.trace_ns));
      case word_key("realtime_ns"):
        return watch.check(key, read_unsigned(n, a.realtime_ns));
      case word_key("monotonic_ns"):
        return watch.check(key, read_unsigned(n, a.monotonic_ns));
      case word_key("boottime_ns"):
        return watch.check(key, read_unsigned(n, a.boottime_ns));
      case word_key("error_ns"):
        return watch.check(key, read_unsigned(n, a.error_ns));
      default:
        return watch.unknown(key);
    }
  });
}

template <class Enum, std::size_t N>
value_state read_counts(json_value& v, std::uint64_t (&counts)[N], field_watch& watch) {
  return each_field(v, [&](std::string_view key, json_value& n) {
    Enum which{};
    if (!value_of<Enum, N>(key, which)) return watch.unknown(key);
    watch.check(key, read_unsigned(n, counts[static_cast<std::size_t>(which)]));
  });
}

value_state read_one_sink(json_value& v, cutrace::sink_stats& s, field_watch& watch) {
  const auto copy = [](std::string_view from, char* to, std::size_t room) {
    const std::size_t n = std::min(from.size(), room - 1);
    std::copy(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(n), to);
    to[n] = '\0';
  };
  return each_field(v, [&](std::string_view key, json_value& n) {
    std::string_view word;
    switch (word_key(key)) {
      case word_key("name"):
        watch.check(key, read_text(n, word));
        return copy(word, s.name, sizeof(s.name));
      case word_key("delivered"):
        return watch.check(key, read_unsigned(n, s.delivered));
      case word_key("written"):
        return watch.check(key, read_unsigned(n, s.written));
      case word_key("lost"):
        return watch.check(key, read_unsigned(n, s.lost));
      case word_key("failed"):
        return watch.check(key, read_bool(n, s.failed));
      case word_key("failure"):
        watch.check(key, read_text(n, word));
        return copy(word, s.failure, sizeof(s.failure));
      default:
        return watch.unknown(key);
    }
  });
}

template <class Use>
value_state each_item(json_value& v, Use use) {
  json_array array;
  const value_state state = state_of(v.get_array().get(array));
  if (state != value_state::good) return state;
  for (auto result : array) {
    json_value item;
    if (std::move(result).get(item) != simdjson::SUCCESS) return value_state::broken;
    use(item);
  }
  return value_state::good;
}

value_state read_sinks(json_value& v, cutrace::stats& s, field_watch& watch) {
  return each_item(v, [&](json_value& item) {
    if (s.sink_count >= cutrace::sink_limit) return watch.unknown("sinks");
    watch.check("sinks", read_one_sink(item, s.sinks[s.sink_count++], watch));
  });
}

}  // namespace

bool read_header_field(std::string_view key, json_value& v, trace_facts& to, field_watch& watch) {
  std::string schema;
  switch (word_key(key)) {
    case word_key("schema"):
      watch.check(key, read_string(v, schema));
      if (schema != "cutrace") watch.wrong(key, value_state::wrong_type);
      return true;
    case word_key("cutrace_version"):
      return true;
    case word_key("part"):
      return watch.check(key, read_unsigned(v, to.part)), true;
    case word_key("pid"):
      return watch.check(key, read_unsigned(v, to.process_id)), true;
    case word_key("process"):
      return watch.check(key, read_string(v, to.process_name)), true;
    case word_key("command_line"):
      return watch.check(key, read_string(v, to.command_line)), true;
    case word_key("host"):
      return watch.check(key, read_string(v, to.host_name)), true;
    case word_key("boot_id"):
      return watch.check(key, read_string(v, to.boot_id)), true;
    case word_key("backend"):
      return watch.check(key, read_string(v, to.backend)), true;
    case word_key("backend_detail"):
      return watch.check(key, read_string(v, to.backend_detail)), true;
    case word_key("clock"):
      return watch.check(key, read_string(v, to.clock)), true;
    case word_key("rank"):
      return watch.check(key, read_signed32(v, to.rank)), true;
    case word_key("world_size"):
      return watch.check(key, read_signed32(v, to.world_size)), true;
    case word_key("clocks"):
      return watch.check(key, read_clocks(v, to.start, watch)), true;
    default:
      return false;
  }
}

bool read_footer_field(std::string_view key, json_value& v, trace_totals& to, field_watch& watch) {
  cutrace::stats& s = to.totals;
  switch (word_key(key)) {
    case word_key("lost_total"):
    case word_key("lines"):
    case word_key("part"):
    case word_key("overlapping_slices"):
      return true;  // follow from others, or are of the file and not of the trace
    case word_key("produced"):
      return watch.check(key, read_unsigned(v, s.produced)), true;
    case word_key("delivered"):
      return watch.check(key, read_unsigned(v, s.delivered)), true;
    case word_key("pending"):
      return watch.check(key, read_unsigned(v, s.pending)), true;
    case word_key("lost"):
      return watch.check(key, read_counts<cutrace::loss_cause>(v, s.lost, watch)), true;
    case word_key("quality"):
      return watch.check(key, read_counts<cutrace::quality>(v, s.quality_of, watch)), true;
    case word_key("unattributed"):
      return watch.check(key, read_counts<cutrace::attribution>(v, s.unattributed_by, watch)), true;
    case word_key("kinds"):
      return watch.check(key, read_counts<cutrace::event_kind>(v, s.by_kind, watch)), true;
    case word_key("memory_bytes"):
      return watch.check(key, read_unsigned(v, s.memory_bytes)), true;
    case word_key("memory_limit_bytes"):
      return watch.check(key, read_unsigned(v, s.memory_limit_bytes)), true;
    case word_key("clock_error_ns"):
      return watch.check(key, read_unsigned(v, s.clock_error_ns)), true;
    case word_key("launches_seen"):
      return watch.check(key, read_unsigned(v, s.launches_seen)), true;
    case word_key("lacking"):
      return watch.check(key, read_unsigned(v, s.lacking)), true;
    case word_key("gpu_records_seen"):
      return watch.check(key, read_unsigned(v, s.gpu_records_seen)), true;
    case word_key("collector_cpu_ns"):
      return watch.check(key, read_unsigned(v, s.collector_cpu_ns)), true;
    case word_key("sinks"):
      return watch.check(key, read_sinks(v, s, watch)), true;
    case word_key("missing"):
      return watch.check(key, read_string(v, to.missing)), true;
    case word_key("notes"):
      watch.check(key, each_item(v, [&](json_value& item) {
                    std::string note;
                    watch.check(key, read_string(item, note));
                    to.add_note(note);
                  }));
      return true;
    case word_key("clocks"):
      return watch.check(key, read_clocks(v, to.stop, watch)), true;
    default:
      return false;
  }
}

}  // namespace cutrace_reading
