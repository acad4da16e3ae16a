// SPDX-License-Identifier: Apache-2.0
// What the analyses keep of a kernel, copy, set or graph: 56 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/intervals.hpp>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

/// What a device is at work for. Communication is recognised by the kernel's name, as HTA (Holistic Trace Analysis)
/// does: "^nccl". Work without times of its own (event::incomplete) is a class by itself: some part of the time from
/// its call to its last possible end is occupied, so that time is neither measured work nor idle.
enum class work_class : std::uint8_t {
  compute,
  communication,
  host_to_device,
  device_to_host,
  device_to_device,
  peer,
  other_copy,
  set,
  unfinished,
};
constexpr std::size_t work_class_count = 9;

inline const char* name_of(work_class c) noexcept {
  constexpr const char* names[] = {"compute",   "communication", "copy HtoD", "copy DtoH", "copy DtoD",
                                   "copy peer", "copy other",    "memset",    "unfinished"};
  return names[static_cast<std::size_t>(c)];
}
inline bool is_copy(work_class c) noexcept { return c >= work_class::host_to_device && c <= work_class::other_copy; }
inline bool is_host_copy(work_class c) noexcept {
  return c == work_class::host_to_device || c == work_class::device_to_host;
}
inline bool is_kernel(work_class c) noexcept { return c <= work_class::communication; }

/// Whether `name` is the name of a kernel of NCCL.
inline bool is_communication(text name) noexcept {
  return std::string_view(name.data, name.size).substr(0, 4) == "nccl";
}

inline work_class class_of(const event& e, bool communication) noexcept {
  if (CUTRACE_UNLIKELY(e.incomplete)) return work_class::unfinished;
  switch (e.kind) {
    case event_kind::memcpy:
      switch (e.memcpy_.direction) {
        case copy_direction::host_to_device:
          return work_class::host_to_device;
        case copy_direction::device_to_host:
          return work_class::device_to_host;
        case copy_direction::device_to_device:
          return work_class::device_to_device;
        case copy_direction::peer:
          return work_class::peer;
        default:
          return work_class::other_copy;
      }
    case event_kind::memset:
      return work_class::set;
    default:
      return communication ? work_class::communication : work_class::compute;
  }
}

/// What gpu_work::call holds.
enum class call_reference : std::uint8_t {
  none,
  start,        ///< the time at which the launching call began
  index,        ///< the launching call's place among the calls of `thread`
  correlation,  ///< the launching call's correlation id; only until trace_log::seal
};

struct gpu_work {
  interval when;
  std::int64_t call = 0;
  std::uint64_t amount = 0;       ///< copies and sets: bytes; kernels: blocks of the grid; graphs: 0
  std::uint32_t name = 0;         ///< name number; of kernels and graphs
  std::uint32_t stage = 0;        ///< stage_log number
  std::uint32_t correlation = 0;  ///< of the launching call, 0: not known
  std::uint16_t lane = 0;         ///< number of device, context and stream, see trace_log::lanes
  std::uint16_t thread = 0;       ///< thread number of the launching call
  work_class is = work_class::compute;
  call_reference call_is = call_reference::none;
  bool pageable : 1;
  bool asynchronous : 1;
  bool graph : 1;          ///< part of a graph's launch, or a whole one
  bool stage_unknown : 1;  ///< the work belongs to a stage, but it is no longer known to which
  std::uint8_t unused = 0;

  gpu_work() noexcept : pageable(false), asynchronous(false), graph(false), stage_unknown(false) {}
};
static_assert(sizeof(gpu_work) <= 56, "kept for each piece of GPU work");

/// Whether GPU work belongs to a stage that is no longer known: the record of stage or call was lost or dropped.
inline bool is_stage_unknown(const event& e) noexcept {
  return e.joined == attribution::stage_unknown || e.joined == attribution::expired;
}

/// Where work ran.
struct work_lane {
  std::uint32_t process = 0, device = 0, context = 0;
  std::uint64_t stream = 0;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
