// SPDX-License-Identifier: Apache-2.0
// What a person reads while the program runs: a line for each call, stage and mark, GPU work indented.
//   [0.001234] cuMemAlloc(bytesize=4000000) -> 0x7f32a4000000 (12.3 us)
//   [0.001240]     kernel gemm grid 12x1x1 block 256x1x1 stream 7 12.3 us, queued 4.1 us, stage decode
// The number in brackets is the end of the event in seconds since the session began. A line is written when its event
// has ended, so lines are in the order of this number. Names are made safe for terminals.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/analysis/category.hpp>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/event_fields.hpp>
#include <cutrace/names.hpp>
#include <cutrace/output/trace_file.hpp>
#include <cutrace/output/utf8.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/sinks/common/json_event.hpp>  // difference_ns, knows_call
#include <cutrace/version.hpp>
#include <string>
#include <string_view>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// Appends what fmt::format returns; the format string is checked at compile time. fmt::format_to would compile the
/// whole formatter into this program, and into each call site code that enlarges its buffer.
template <class... Values>
inline void append_format(std::string& out, fmt::format_string<const Values&...> form, const Values&... values) {
  out += fmt::format(form, values...);
}

// Durations, sizes and rates for people: 12.3 us, 3.8 MiB, 12.9 GB/s. As in the ASCII report, sizes count in powers of
// 1024, bandwidth in powers of 1000, as vendors state it.

inline void append_duration(std::string& out, std::int64_t ns) {
  const double n = static_cast<double>(ns);
  const double size = n < 0 ? -n : n;
  if (size < 1e3) {
    append_format(out, "{} ns", ns);
  } else if (size < 1e6) {
    append_format(out, "{:.1f} us", n / 1e3);
  } else if (size < 1e9) {
    append_format(out, "{:.2f} ms", n / 1e6);
  } else {
    append_format(out, "{:.3f} s", n / 1e9);
  }
}

inline void append_bytes(std::string& out, std::uint64_t bytes) {
  const double n = static_cast<double>(bytes);
  if (bytes < 1024) {
    append_format(out, "{} B", bytes);
  } else if (bytes < std::uint64_t{1} << 20) {
    append_format(out, "{:.1f} KiB", n / 1024);
  } else if (bytes < std::uint64_t{1} << 30) {
    append_format(out, "{:.1f} MiB", n / (1 << 20));
  } else {
    append_format(out, "{:.2f} GiB", n / (1 << 30));
  }
}

/// bytes / ns is GB/s. Nothing where there is no duration.
inline void append_bandwidth(std::string& out, std::uint64_t bytes, std::int64_t ns) {
  if (ns <= 0 || bytes == 0) return;
  const double rate = static_cast<double>(bytes) / static_cast<double>(ns);
  if (rate >= 1) {
    append_format(out, ", {:.1f} GB/s", rate);
  } else {
    append_format(out, ", {:.1f} MB/s", rate * 1e3);
  }
}

// The lines of the calls sink: one event, the head and the totals as text for people.

constexpr std::size_t shown_name_bytes = 200;  // a mangled or templated kernel name can be 10 kB long

inline void append_name(std::string& out, std::string_view name) { append_printable(out, name, shown_name_bytes); }
inline void append_name(std::string& out, text name) { append_name(out, view_of(name)); }
/// A note or another line for people, whose end often says what to do.
inline void append_sentence(std::string& out, std::string_view s) { append_printable(out, s, 4096); }

/// "[0.001234] ": seconds since the session began; what is below a microsecond is cut off.
inline void append_time(std::string& out, std::int64_t ns) {
  std::uint64_t n = static_cast<std::uint64_t>(ns);
  if (ns < 0) n = 0 - n;
  append_format(out, "[{}{}.{:06}] ", ns < 0 ? "-" : "", n / 1000000000u, n / 1000u % 1000000u);
}

inline void append_argument_value(std::string& out, const argument& a) {
  switch (a.kind) {
    case argument_kind::integer:
      append_format(out, "{}", static_cast<std::int64_t>(a.value));
      return;
    case argument_kind::unsigned_integer:
    case argument_kind::bytes:
      append_format(out, "{}", a.value);
      return;
    case argument_kind::floating: {
      double d = 0;
      std::memcpy(&d, &a.value, sizeof(d));
      append_format(out, "{}", d);
      return;
    }
    case argument_kind::string:
      out += '"';
      append_name(out, a.string_value());
      out += '"';
      return;
    case argument_kind::word:
    case argument_kind::pointer:
    case argument_kind::stream:
    case argument_kind::handle:
    case argument_kind::output:
      break;
  }
  append_format(out, "{:#x}", a.value);
}

/// "bytesize=4000000"
inline void append_argument(std::string& out, const argument& a) {
  append_name(out, a.name);
  if (a.name.size != 0) out += '=';
  append_argument_value(out, a);
}

/// "(bytesize=4000000) -> 0x7f32a4000000": what went in, and what came out or the error.
inline void append_arguments(std::string& out, const api_data& a) {
  const std::uint32_t count = a.arguments != nullptr ? a.argument_count : 0;
  out += '(';
  const char* separator = "";
  for (std::uint32_t i = 0; i < count; ++i) {
    if (a.arguments[i].kind == argument_kind::output) continue;
    out += separator;
    separator = ", ";
    append_argument(out, a.arguments[i]);
  }
  out += ')';
  separator = " -> ";
  if (a.result != 0) {
    out += separator;
    append_name(out, a.result_name);
    if (a.result_name.size == 0) append_format(out, "error {}", a.result);
    return;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (a.arguments[i].kind != argument_kind::output) continue;
    out += separator;
    separator = ", ";
    append_argument_value(out, a.arguments[i]);
  }
}

/// ", stage decode, request 17", ", requests 17, 18 and 38 more". For a stage's own event only its requests.
inline void append_membership(std::string& out, const event& e) {
  if (e.kind != event_kind::stage && e.stage_name.size != 0) {
    out += ", stage ";
    append_name(out, e.stage_name);
  }
  if (e.requests == nullptr || e.request_count == 0) {
    if (e.request_total != 0)
      append_format(out, ", {} {} not known", e.request_total, e.request_total == 1 ? "request" : "requests");
    return;
  }
  constexpr std::uint32_t shown = 4;
  out += e.request_count == 1 && e.request_total <= 1 ? ", request" : ", requests";
  std::uint32_t i = 0;
  for (; i < e.request_count && i < shown; ++i) {
    out += i == 0 ? " " : ", ";
    if (e.requests[i].name.size != 0) {
      append_name(out, e.requests[i].name);
    } else {
      append_format(out, "{}", e.requests[i].id);
    }
  }
  const std::uint32_t total = e.request_total > e.request_count ? e.request_total : e.request_count;
  if (total > i) append_format(out, " and {} more", total - i);
}

inline void append_call(std::string& out, const event& e) {
  const std::int64_t dur_ns = difference_ns(e.end_ns, e.start_ns);
  append_time(out, e.end_ns);
  append_name(out, e.name);
  append_arguments(out, e.api);
  out += " (";
  append_duration(out, dur_ns);
  // An asynchronous call returns before its copy is done: the line of the copy itself has the rate.
  if (e.api.direction != copy_direction::unknown && !analysis::is_asynchronous_call(e.name))
    append_bandwidth(out, e.api.bytes, dur_ns);
  if (e.api.runtime_name.size != 0) {
    out += ", by ";
    append_name(out, e.api.runtime_name);
  }
  append_membership(out, e);
  out += ')';
}

inline void append_gpu_what(std::string& out, const event& e) {
  switch (e.kind) {
    case event_kind::kernel: {
      const kernel_data& k = e.kernel;
      out += "kernel ";
      append_name(out, e.name);
      append_format(out, " grid {}x{}x{} block {}x{}x{}", k.grid[0], k.grid[1], k.grid[2], k.block[0], k.block[1],
                    k.block[2]);
      return;
    }
    case event_kind::memcpy:
      append_format(out, "memcpy {} ", to_string(e.memcpy_.direction));
      append_bytes(out, e.memcpy_.bytes);
      append_format(out, " ({} -> {})", to_string(e.memcpy_.source), to_string(e.memcpy_.destination));
      return;
    case event_kind::memset:
      out += "memset ";
      append_bytes(out, e.memset_.bytes);
      return;
    case event_kind::sync:
      out += to_string(e.sync.what);
      return;
    case event_kind::graph_launch:
      append_format(out, "graph {}", e.kernel.graph_id);
      return;
    default:
      return;
  }
}

inline void append_gpu(std::string& out, const event& e) {
  const std::int64_t dur_ns = difference_ns(e.end_ns, e.start_ns);
  append_time(out, e.end_ns);
  out += "    ";
  append_gpu_what(out, e);
  if (e.device != 0) append_format(out, " device {}", e.device);
  if (e.kind != event_kind::sync || e.sync.what != sync_kind::context) append_format(out, " stream {}", e.stream);
  out += ' ';
  append_duration(out, dur_ns);
  if (CUTRACE_UNLIKELY(e.incomplete)) out += " at most, unfinished: times not known";
  if (e.kind == event_kind::memcpy && !e.incomplete) append_bandwidth(out, e.memcpy_.bytes, dur_ns);
  if (e.kind == event_kind::memset && !e.incomplete) append_bandwidth(out, e.memset_.bytes, dur_ns);
  if (e.is_gpu_work() && knows_call(e) && !e.incomplete) {
    out += ", queued ";
    append_duration(out, difference_ns(e.start_ns, e.call_start_ns));
  }
  append_membership(out, e);
  if (e.is_gpu_work() && !knows_call(e)) append_format(out, ", unattributed: {}", to_string(e.joined));
}

/// " [nvtx Triton]" for a stage or mark that came from NVTX, here of its domain Triton; nothing for cutrace's markers.
inline void append_origin(std::string& out, const stage_data& s) {
  if (s.origin == stage_origin::marker) return;
  append_format(out, " [{}", to_string(s.origin));
  if (s.domain.size != 0) out += ' ';
  append_name(out, s.domain);
  out += ']';
}

/// "ioctl nvidiactl NV_ESC_RM_CONTROL NV2080_CTRL_CMD_GPU_GET_INFO_V2 -> NV_OK (12.3 us)": the status inside of the
/// parameter block; where the system call itself failed, its errno.
inline void append_ioctl(std::string& out, const event& e) {
  const ioctl_data& i = e.ioctl_;
  append_time(out, e.end_ns);
  out += "ioctl ";
  append_name(out, i.node);
  if (i.node.size != 0) out += ' ';
  append_name(out, e.name);
  if (i.command_name.size != 0) out += ' ';
  append_name(out, i.command_name);
  if (i.object != 0) append_format(out, " object {:#x}", i.object);
  if (i.error != 0) append_format(out, " -> errno {}", i.error);
  if (i.status_name.size != 0) out += " -> ";
  append_name(out, i.status_name);
  out += " (";
  append_duration(out, difference_ns(e.end_ns, e.start_ns));
  append_membership(out, e);
  out += ')';
}

/// "sched switched out (state="sleeping") -> 0 (12.3 us) cpu 3"; an instant has no duration.
inline void append_system(std::string& out, const event& e) {
  const system_data& s = e.system;
  append_time(out, e.end_ns);
  append_name(out, s.category);
  if (s.category.size != 0) out += ' ';
  append_name(out, e.name);
  const char* separator = "(";
  for (std::uint32_t i = 0; s.arguments != nullptr && i < s.argument_count; ++i) {
    out += separator;
    separator = ", ";
    append_argument(out, s.arguments[i]);
  }
  if (*separator == ',') out += ')';
  if (s.has_result) append_format(out, " -> {}", s.result);
  if (e.end_ns != e.start_ns) {
    out += " (";
    append_duration(out, difference_ns(e.end_ns, e.start_ns));
    out += ')';
  }
  append_format(out, " cpu {}", s.cpu);
  append_membership(out, e);
}

/// ", address 0x7f32a4000000, bytes 64 B": a field of an event kind that has no line format of its own.
template <class Field>
void append_field(std::string& out, const event& e, const Field& field) {
  constexpr field_form form = Field::form;
  if constexpr (form == field_form::triple || form == field_form::uuid || form == field_form::payload) {
    return;  // kinds with these have a line format of their own
  } else {
    if (!field.is_there(e)) return;
    out.append(", ").append(field.name).append(" ");
    const auto& v = field.of(e);
    if constexpr (form == field_form::arguments) {
      for (std::uint32_t i = 0; i < v.argument_count; ++i) {
        if (i != 0) out += ' ';
        append_argument(out, v.arguments[i]);
      }
    } else if constexpr (form == field_form::word) {
      out += to_string(v);
    } else if constexpr (form == field_form::choice) {
      out += field.words[v ? 1 : 0];
    } else if constexpr (form == field_form::text) {
      append_name(out, v);
    } else if constexpr (form == field_form::flag) {
      out += v ? "yes" : "no";
    } else if constexpr (form == field_form::hex) {
      append_format(out, "{:#x}", v);
    } else if (field.unit == field_unit::bytes) {
      append_bytes(out, static_cast<std::uint64_t>(v));
    } else if (field.unit == field_unit::ns && form != field_form::time) {
      append_duration(out, static_cast<std::int64_t>(v));
    } else {
      append_format(out, "{}", v);
    }
  }
}

/// Stages, ranges and other named times of the host, and kinds without a line format of their own.
inline void append_host(std::string& out, const event& e) {
  append_time(out, e.end_ns);
  out += to_string(e.kind);
  out += ' ';
  append_name(out, e.name);
  if (e.kind == event_kind::stage) append_origin(out, e.stage);
  out += " (";
  append_duration(out, difference_ns(e.end_ns, e.start_ns));
  if (goes_by_fields(e.kind)) with_fields(e.kind, [&](const auto&... field) { (append_field(out, e, field), ...); });
  append_membership(out, e);
  out += ')';
}

inline void append_point(std::string& out, const event& e) {
  if (e.kind == event_kind::loss) {
    append_format(out, "# lost {} records: {}", e.loss.count, to_string(e.loss.cause));
    return;
  }
  if (e.kind == event_kind::memory) {
    append_time(out, e.end_ns);
    out += "    ";
    append_format(out, "{} ", to_string(e.memory.operation));
    append_bytes(out, e.memory.bytes);
    append_format(out, " {} at {:#x}", to_string(e.memory.memory), e.memory.address);
  } else {
    append_time(out, e.end_ns);
    append_format(out, "{} ", to_string(e.kind));
    append_name(out, e.name);
  }
  if (e.is_cuda_event()) {
    if (e.device != 0) append_format(out, " device {}", e.device);
    append_format(out, " stream {}", e.stream);
  }
  if (e.kind == event_kind::mark) append_origin(out, e.stage);
  if (e.kind == event_kind::counter) {
    append_format(out, " = {}", e.counter.value);
    if (e.counter.change != 0) append_format(out, " ({:+})", e.counter.change);
  }
  append_membership(out, e);
}

inline void append_description(std::string& out, const event& e) {
  append_format(out, "# {} ", to_string(e.kind));
  switch (e.kind) {
    case event_kind::process:
      append_format(out, "{} ", e.process_id);
      break;
    case event_kind::thread:
      append_format(out, "{} ", e.thread_id);
      break;
    case event_kind::device:
      append_format(out, "{} ", e.device);
      break;
    case event_kind::context:
      append_format(out, "{} on device {} ", e.context, e.device);
      break;
    default:
      append_format(out, "{} of context {} on device {} ", e.stream, e.context, e.device);
      break;
  }
  append_name(out, e.name);
  if (out.back() == ' ') out.pop_back();
}

/// One event as one line.
inline void calls_line(std::string& out, const event& e) {
  switch (e.kind) {
    case event_kind::api:
      append_call(out, e);
      break;
    case event_kind::kernel:
    case event_kind::memcpy:
    case event_kind::memset:
    case event_kind::sync:
    case event_kind::graph_launch:
      append_gpu(out, e);
      break;
    case event_kind::ioctl:
      append_ioctl(out, e);
      break;
    case event_kind::system:
      append_system(out, e);
      break;
    case event_kind::mark:
    case event_kind::counter:
    case event_kind::memory:
    case event_kind::loss:
      append_point(out, e);
      break;
    case event_kind::process:
    case event_kind::thread:
    case event_kind::device:
    case event_kind::context:
    case event_kind::stream:
      append_description(out, e);
      break;
    default:
      append_host(out, e);
      break;
  }
  out += '\n';
}

inline void calls_header(std::string& out, const trace_info& i) {
  append_format(out, "# cutrace {}: ", CUTRACE_VERSION_STRING);
  append_name(out, view_of(i.process_name));
  append_format(out, " (pid {}) on ", i.process_id);
  append_name(out, view_of(i.host_name));
  out += ", GPU times from ";
  append_name(out, view_of(i.backend));
  if (!view_of(i.backend_detail).empty()) {
    out += ": ";
    append_sentence(out, view_of(i.backend_detail));
  }
  out += '\n';
}

/// Totals, each cause of loss that occurred, and the notes.
inline void calls_footer(std::string& out, const trace_summary& summary) {
  const stats& s = summary.totals;
  append_format(out, "# {} events produced, {} delivered, {} lost", s.produced, s.delivered, s.lost_total());
  for (std::size_t i = 0; i < loss_cause_count; ++i) {
    if (s.lost[i] != 0) append_format(out, ", {} {}", s.lost[i], to_string(static_cast<loss_cause>(i)));
  }
  for (std::size_t i = 0; i < quality_count; ++i) {
    if (s.quality_of[i] != 0) append_format(out, "; {} {}", s.quality_of[i], to_string(static_cast<quality>(i)));
  }
  out += '\n';
  if (summary.missing != nullptr) {
    out += "# INCOMPLETE: ";
    append_sentence(out, view_of(summary.missing));
    out += '\n';
  }
  for (std::uint32_t i = 0; i < summary.note_count; ++i) {
    out += "# ";
    append_sentence(out, view_of(summary.notes[i]));
    out += '\n';
  }
}

}  // namespace detail
CUTRACE_END_NAMESPACE

CUTRACE_BEGIN_NAMESPACE

class calls_sink : public sink {
 public:
  /// `path`: empty: standard error; "-": standard output; else a file, %p is the process id, %h the host's name;
  /// compressed where it ends in ".gz".
  explicit calls_sink(std::string path = {}, const file_limits& limits = {})
      : path_(std::move(path)), limits_(limits) {}

  const char* name() const noexcept override { return "calls"; }
  const char* destination() const noexcept override { return file_.path().c_str(); }

  void open(const trace_info& info) override {
    if (path_.empty()) {
      file_.adopt(STDERR_FILENO, "standard error");
    } else {
      file_.open(path_.c_str(), detail::publish::at_once, limits_);
    }
    header_.clear();
    detail::calls_header(header_, info);
    begin_part();
  }

  void write(event_view events) override {
    for (const event& e : events) {
      if (CUTRACE_UNLIKELY(file_.is_full())) {
        file_.leave_out(1);
        continue;
      }
      line_.clear();
      detail::calls_line(line_, e);
      file_.write(line_);
      file_.event_ends();
      empty_ = false;
      if (CUTRACE_UNLIKELY(file_.part_is_full() && !file_.is_full())) next_part();
    }
  }

  std::uint64_t left_out() const noexcept override { return file_.left_out(); }
  const char* left_out_because() const noexcept override { return file_.left_out_because(); }
  std::uint64_t arrived() const noexcept override { return file_.arrived(); }

  void flush() override {
    if (!empty_ && file_.part_is_old()) next_part();
    file_.flush();
  }

  void close(const trace_summary& summary) override {
    if (!file_.is_open()) return;  // it failed before and said so
    line_.clear();
    detail::calls_footer(line_, summary);
    file_.write(line_);
    file_.close();
  }

 private:
  void begin_part() {
    file_.write(header_);
    empty_ = true;
  }
  CUTRACE_NOINLINE void next_part() {
    file_.write("# goes on in " + file_.next_name() + "\n");
    file_.next_part();
    begin_part();
  }

  std::string path_;
  file_limits limits_;
  std::string header_;
  std::string line_;
  detail::trace_file file_;
  bool empty_ = true;  ///< no event is in this part
};

CUTRACE_END_NAMESPACE
