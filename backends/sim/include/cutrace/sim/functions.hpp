// SPDX-License-Identifier: Apache-2.0
// The host calls of the simulated GPU, described with the names of the driver functions that they stand for. Parameter
// names are those of cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/sim/work.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

enum class function : std::uint32_t {
  allocate,
  free,
  launch,
  copy_in,
  copy_out,
  copy_within,
  copy_in_blocking,
  copy_out_blocking,
  set,
  stream_create,
  stream_destroy,
  stream_synchronize,
  context_synchronize,
  event_record,
  stream_wait_event,
  event_synchronize,
  begin_capture,
  end_capture,
  instantiate,
  graph_launch,
};
constexpr std::uint32_t function_count = 20;

/// Ids of these functions as the event writer sees them: above all callback ids of CUPTI (below 1,000 so far), so that
/// both backends can serve one session.
constexpr std::uint32_t function_id(function f) { return 3072 + static_cast<std::uint32_t>(f); }

inline const function_info& describe(function f) {
  using p = function_info::parameter;
  using k = argument_kind;
  static constexpr p allocate[] = {{"dptr", k::output}, {"bytesize", k::bytes}};
  static constexpr p release[] = {{"dptr", k::pointer}};
  static constexpr p launch[] = {{"f", k::handle},
                                 {"gridDimX", k::unsigned_integer},
                                 {"gridDimY", k::unsigned_integer},
                                 {"gridDimZ", k::unsigned_integer},
                                 {"blockDimX", k::unsigned_integer},
                                 {"blockDimY", k::unsigned_integer},
                                 {"blockDimZ", k::unsigned_integer},
                                 {"sharedMemBytes", k::bytes},
                                 {"hStream", k::stream}};
  static constexpr p in[] = {
      {"dstDevice", k::pointer}, {"srcHost", k::pointer}, {"ByteCount", k::bytes}, {"hStream", k::stream}};
  static constexpr p out[] = {
      {"dstHost", k::pointer}, {"srcDevice", k::pointer}, {"ByteCount", k::bytes}, {"hStream", k::stream}};
  static constexpr p within[] = {
      {"dstDevice", k::pointer}, {"srcDevice", k::pointer}, {"ByteCount", k::bytes}, {"hStream", k::stream}};
  static constexpr p set[] = {
      {"dstDevice", k::pointer}, {"uc", k::unsigned_integer}, {"N", k::bytes}, {"hStream", k::stream}};
  static constexpr p create[] = {{"phStream", k::output}, {"Flags", k::unsigned_integer}, {"priority", k::integer}};
  static constexpr p stream[] = {{"hStream", k::stream}};
  static constexpr p event_stream[] = {{"hEvent", k::handle}, {"hStream", k::stream}};
  static constexpr p stream_event[] = {{"hStream", k::stream}, {"hEvent", k::handle}, {"Flags", k::unsigned_integer}};
  static constexpr p event[] = {{"hEvent", k::handle}};
  static constexpr p end_capture[] = {{"hStream", k::stream}, {"phGraph", k::output}};
  static constexpr p instantiate[] = {
      {"phGraphExec", k::output}, {"hGraph", k::handle}, {"flags", k::unsigned_integer}};
  static constexpr p graph_launch[] = {{"hGraphExec", k::handle}, {"hStream", k::stream}};
  static constexpr auto none = copy_direction::unknown;
  static constexpr function_info all[function_count] = {
      {"cuMemAlloc_v2", allocate, 2, none, 1, false},
      {"cuMemFree_v2", release, 1, none, -1, false},
      {"cuLaunchKernel", launch, 9, none, -1, true},
      {"cuMemcpyHtoDAsync_v2", in, 4, copy_direction::host_to_device, 2, true},
      {"cuMemcpyDtoHAsync_v2", out, 4, copy_direction::device_to_host, 2, true},
      {"cuMemcpyDtoDAsync_v2", within, 4, copy_direction::device_to_device, 2, true},
      {"cuMemcpyHtoD_v2", in, 3, copy_direction::host_to_device, 2, true},
      {"cuMemcpyDtoH_v2", out, 3, copy_direction::device_to_host, 2, true},
      {"cuMemsetD8Async", set, 4, none, 2, true},
      {"cuStreamCreateWithPriority", create, 3, none, -1, false},
      {"cuStreamDestroy_v2", stream, 1, none, -1, false},
      {"cuStreamSynchronize", stream, 1, none, -1, true},
      {"cuCtxSynchronize", nullptr, 0, none, -1, true},
      {"cuEventRecord", event_stream, 2, none, -1, false},
      {"cuStreamWaitEvent", stream_event, 3, none, -1, true},
      {"cuEventSynchronize", event, 1, none, -1, true},
      {"cuStreamBeginCapture_v2", stream, 1, none, -1, false},
      {"cuStreamEndCapture", end_capture, 2, none, -1, false},
      {"cuGraphInstantiateWithFlags", instantiate, 3, none, -1, false},
      {"cuGraphLaunch", graph_launch, 2, none, -1, true},
  };
  return all[static_cast<std::size_t>(f)];
}

/// The CUresult (cuda.h) that the driver would give.
inline std::int32_t result_code(status s) {
  switch (s) {
    case status::ok:
      return 0;
    case status::invalid_value:
      return 1;
    case status::out_of_memory:
      return 2;
    case status::invalid_device:
      return 101;
    case status::invalid_handle:
      return 400;
    case status::not_ready:
      return 600;
    case status::already_registered:
      return 712;
    case status::not_registered:
      return 713;
    case status::capture_unsupported:
      return 900;
    case status::capture_invalidated:
      return 901;
    case status::capture_unmatched:
      return 903;
    case status::capture_unjoined:
      return 904;
    case status::capture_implicit:
      return 906;
    case status::captured_event:
      return 907;
    case status::context_lost:
      return 719;  // whatever the fault was: sim::gpu injects none
  }
  return 999;
}

}  // namespace sim
CUTRACE_END_NAMESPACE
