// SPDX-License-Identifier: Apache-2.0
// What `cutrace run` writes into the pipe to the process that writes the trace: records of the ring buffer unchanged,
// and between them what only that command knows: names, losses, notes. Each kind has one size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call_record.h"
#include "probe_record.h"

namespace cutrace_ebpf {

enum stream_kind : std::uint16_t { stream_name = 100, stream_lost = 101, stream_note = 102 };

/// From here on, records of calls with this function number mean this name.
struct name_record {
  cutrace_ebpf_head head;
  std::uint32_t function;
  std::uint32_t exported;  ///< 1: a symbol of the library, 0: what cuGetProcAddress was asked for
  char name[80];
};
/// Records lost since the last such record, by cause (cutrace_ebpf_loss).
struct lost_record {
  cutrace_ebpf_head head;
  std::uint64_t lost[CUTRACE_EBPF_LOSSES];
};
/// A line for the notes of the trace, or a part of one: the next such record has more of it.
constexpr std::uint16_t note_goes_on = 1;  ///< in the head's flags
struct note_record {
  cutrace_ebpf_head head;
  char text[240];
};

/// 0: no such kind.
constexpr std::size_t bytes_of(std::uint16_t kind) {
  return kind == CUTRACE_EBPF_CALL        ? sizeof(cutrace_ebpf_call)
         : kind == CUTRACE_EBPF_LONG_CALL ? sizeof(cutrace_ebpf_long_call)
         : kind == CUTRACE_EBPF_THREAD    ? sizeof(cutrace_ebpf_thread)
         : kind == CUTRACE_EBPF_IOCTL     ? sizeof(cutrace_ebpf_ioctl) + 2 * CUTRACE_EBPF_BLOCK
         : kind == CUTRACE_EBPF_TRANSFER  ? sizeof(cutrace_ebpf_ioctl) + 4 * CUTRACE_EBPF_BLOCK
         : kind == CUTRACE_EBPF_SPAN      ? sizeof(cutrace_ebpf_span)
         : kind == CUTRACE_EBPF_XID       ? sizeof(cutrace_ebpf_xid)
         : kind == CUTRACE_EBPF_PROBE     ? sizeof(cutrace_ebpf_probe)
         : kind == stream_name            ? sizeof(name_record)
         : kind == stream_lost            ? sizeof(lost_record)
         : kind == stream_note            ? sizeof(note_record)
                                          : 0;
}

/// A record of this type, filled with zeros.
template <class Record>
Record make_record(std::uint16_t kind, std::uint32_t process) {
  Record r;
  std::memset(static_cast<void*>(&r), 0, sizeof(r));
  r.head.kind = kind;
  r.head.process = process;
  return r;
}

}  // namespace cutrace_ebpf
