// SPDX-License-Identifier: Apache-2.0
// What a call does to the order of a stream: found once for each function, by its name and the names of its parameters
// as in cuda.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <cutrace/backend.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

struct stream_use {
  enum class role : std::uint8_t {
    none,
    work,          ///< GPU records of it come: launch, copy, set
    graph,         ///< the same, of each node
    event_record,  ///< leaves no record, as all up to host_function
    wait_event,    ///< the stream waits
    wait_value,    ///< the stream waits, or may: a batch of memory operations
    write_value,
    host_function,  ///< also the older callback
    stream_wait,    ///< the host waits, as in the next two
    event_wait,
    context_wait,
    stream_created,
    stream_gone,
    event_gone,
    begins_capture,
    ends_capture
  };

  role what = role::none;
  std::int8_t stream_word = -1;  ///< index of that argument, -1: the default stream
  std::int8_t event_word = -1;

  bool per_thread = false;  ///< the default stream is that of the calling thread

  static stream_use of(const function_info& f) noexcept {
    stream_use use;
    for (std::uint32_t i = 0; i < f.parameter_count && i < 10; ++i) {
      const char* const name = f.parameters[i].name;
      if (std::strcmp(name, "hStream") == 0 || std::strcmp(name, "stream") == 0 || std::strcmp(name, "phStream") == 0)
        use.stream_word = static_cast<std::int8_t>(i);
      if (std::strcmp(name, "hEvent") == 0) use.event_word = static_cast<std::int8_t>(i);
    }
    use.what = role_of(f);
    use.per_thread = f.per_thread_stream;
    return use;
  }

 private:
  static role role_of(const function_info& f) noexcept {
    if (f.name == nullptr) return role::none;
    const auto begins = [&f](const char* with) { return std::strncmp(f.name, with, std::strlen(with)) == 0; };
    if (f.makes_gpu_work) return begins("cuGraph") ? role::graph : role::work;
    struct known {
      const char* begin;
      role what;
    };
    static constexpr known all[] = {
        {"cuEventRecord", role::event_record},          {"cuStreamWaitEvent", role::wait_event},
        {"cuStreamWaitValue", role::wait_value},        {"cuStreamWriteValue", role::write_value},
        {"cuStreamBatchMemOp", role::wait_value},  // it may hold one
        {"cuLaunchHostFunc", role::host_function},      {"cuStreamAddCallback", role::host_function},
        {"cuStreamSynchronize", role::stream_wait},     {"cuEventSynchronize", role::event_wait},
        {"cuCtxSynchronize", role::context_wait},       {"cuStreamCreate", role::stream_created},
        {"cuStreamDestroy", role::stream_gone},         {"cuEventDestroy", role::event_gone},
        {"cuStreamBeginCapture", role::begins_capture}, {"cuStreamEndCapture", role::ends_capture}};
    for (const known& k : all)
      if (begins(k.begin)) return k.what;
    return role::none;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
