// SPDX-License-Identifier: Apache-2.0
// Records of probes that the user named become events: spans of functions, instants of tracepoints. A pure function of
// bytes, on the collector's thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <cutrace/backend.hpp>
#include <string>
#include <vector>

#include "kernel_catalog.hpp"
#include "probe_record.h"

namespace cutrace_ebpf {

/// What records leave out of their probe; a probe's number, from 1 on, is its place in probe_view.
struct known_probe {
  std::string name;
  std::vector<typed_value> arguments;
  bool has_result = false;
  typed_value result;
};
using probe_view = std::vector<known_probe>;

class CUTRACE_LOCAL user_events {
 public:
  explicit user_events(probe_view view) : view_(std::move(view)) {}

  static bool knows(std::uint16_t kind) noexcept { return kind == CUTRACE_EBPF_PROBE; }

  /// Emits the event of the whole record at `bytes`. `raw_ns`: CLOCK_MONOTONIC in ns -> raw frame (clock.hpp) in ns.
  template <class Clock>
  void emit(const unsigned char* bytes, cutrace::event_emitter& to, Clock raw_ns) const {
    cutrace_ebpf_probe r;
    std::memcpy(static_cast<void*>(&r), bytes, sizeof(r));
    if (r.number == 0 || r.number > view_.size()) return to.count_loss(cutrace::loss_cause::unknown_record, 1);
    const known_probe& p = view_[r.number - 1];
    cutrace::event e;
    e.kind = cutrace::event_kind::system;
    e.thread_id = r.head.thread;
    e.start_ns = raw_ns(r.begin_ns);
    e.end_ns = raw_ns(r.end_ns);
    e.name = to.intern(p.name.data(), p.name.size());
    e.system.category = {"probe", 5};
    e.system.enclosing = r.id;
    e.system.cpu = r.head.cpu;
    cutrace::argument arguments[limit];
    for (const typed_value& v : p.arguments) {
      if (!v.readable || v.slot >= CUTRACE_EBPF_PROBE_WORDS || e.system.argument_count == limit) continue;
      cutrace::argument& a = arguments[e.system.argument_count++];
      a.name = to.intern(v.name.data(), v.name.size());
      a.value = value_in(r.words[v.slot], v);
      a.kind = v.is_pointer  ? cutrace::argument_kind::pointer
               : v.is_signed ? cutrace::argument_kind::integer
                             : cutrace::argument_kind::unsigned_integer;
    }
    const bool left = (r.head.flags & CUTRACE_EBPF_LEFT) != 0;
    if (left && e.system.argument_count < limit)
      arguments[e.system.argument_count++] = {
          {"end", 3}, cutrace::argument_kind::string, cutrace::argument::word_of("did not return")};
    e.system.arguments = arguments;
    e.system.has_result = p.has_result && !left;
    if (e.system.has_result)
      e.system.result = static_cast<std::int64_t>(value_in(static_cast<std::uint64_t>(r.result), p.result));
    to.emit(e);
  }

 private:
  static constexpr std::uint32_t limit = 10;  ///< of an event's arguments

  /// Cuts a register to the size of its type, with the sign: the bits above a short type mean nothing.
  static std::uint64_t value_in(std::uint64_t word, const typed_value& v) noexcept {
    if (v.bytes == 0 || v.bytes >= 8) return word;
    const unsigned bits = 8 * v.bytes;
    const std::uint64_t low = word & ((std::uint64_t{1} << bits) - 1);
    const bool negative = v.is_signed && (low >> (bits - 1)) != 0;
    return negative ? low | (~std::uint64_t{0} << bits) : low;
  }

  probe_view view_;
};

}  // namespace cutrace_ebpf
