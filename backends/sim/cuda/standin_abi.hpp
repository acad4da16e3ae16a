// SPDX-License-Identifier: Apache-2.0
// What the two stand-in libraries know of each other: libcuda exports `cutrace_standin_driver`, libcupti looks it up
// and hands over a `standin_tracer`. Internal, and checked by version: both files come from one build. Times are
// nanoseconds of the simulation's clock (CLOCK_MONOTONIC).
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>

#include "../include/cutrace/sim/moment.hpp"  // relative: some tests lack the simulation's include directory

#define CUTRACE_STANDIN_ABI 4u
#define CUTRACE_STANDIN_DRIVER_SYMBOL "cutrace_standin_driver"
/// Exported by libcuda, for there is no stand-in of the runtime library: calls `body` between the ENTER and EXIT
/// callbacks of a function of the runtime API. `cbid` is a CUpti_runtime_api_trace_cbid, `name` the function's as in
/// that enum.
using standin_runtime_call = void(std::uint32_t cbid, const char* name, void (*body)(void*), void* data);
#define CUTRACE_STANDIN_RUNTIME_SYMBOL "cutrace_standin_runtime_call"

/// A driver call, alive from enter to exit on the calling thread.
struct standin_call {
  std::uint32_t cbid;
  std::uint32_t correlation;
  const char* name;
  const void* params;  ///< the function's <name>_params, null when it has none
  const char* symbol;  ///< kernel name of launches, else null
  CUresult* result;
  CUcontext context;
  std::uint32_t context_id;
  std::uint64_t data;        ///< the subscriber's slot (correlationData)
  std::uint64_t enter_time;  ///< set by the tracer: the CUPTI timestamp at enter
};

enum standin_work_kind : std::uint32_t { standin_kernel, standin_memcpy, standin_peer, standin_memset, standin_graph };

struct standin_work {
  standin_work_kind kind;
  std::uint32_t correlation;
  std::uint32_t device, context, stream;
  std::uint64_t issued_ns, start_ns, end_ns;
  cutrace::sim::moment_ptr open;                   ///< instead of start and end, where they are not known yet
  std::shared_ptr<const cutrace::sim::loss> lost;  ///< what may become of its context
  std::uint32_t graph, made_traced;  ///< id of the executable graph, 0: none; see standin_tracer::traces_graphs
  std::uint64_t graph_node;
  const char* name;  ///< lives as long as the process
  std::uint32_t grid[3], block[3], cluster[3];
  std::uint32_t registers, static_shared, dynamic_shared, local;
  bool cooperative;
  bool asynchronous;
  bool staged;  ///< a copy between devices of which neither reaches the other's memory
  std::uint64_t bytes;
  std::uint32_t value;
  std::uint8_t copy_kind, source_kind, destination_kind;  ///< CUPTI's numbers
  std::uint32_t source_device, source_context, destination_device, destination_context;
};

struct standin_sync {
  std::uint32_t type;  ///< CUpti_ActivitySynchronizationType
  std::uint32_t correlation, context, stream, event;
  std::uint64_t start_ns, end_ns;
  std::uint32_t result;
  bool query;
};

struct standin_memory {
  bool release;
  bool asynchronous;
  std::uint8_t kind;  ///< CUpti_ActivityMemoryKind
  std::uint32_t correlation, device, context, stream;
  std::uint64_t address, bytes, at_ns;
};

struct standin_event {
  std::uint32_t correlation, device, context, stream, event;
  std::uint64_t at_ns;
  cutrace::sim::moment_ptr open;  ///< instead of `at_ns`, as above
  std::shared_ptr<const cutrace::sim::loss> lost;
};

struct standin_stream {
  std::uint32_t context, stream, correlation, flag;  ///< flag: CUpti_ActivityStreamFlag
  std::int32_t priority;
};

struct standin_context {
  std::uint32_t context, device, null_stream;
};

struct standin_device {
  std::uint32_t id;
  const char* name;
  unsigned char uuid[16];
  std::uint64_t memory_bytes, bandwidth_bytes_per_s;
  std::uint32_t multiprocessors, major, minor, core_clock_khz, l2_bytes;
};

/// Implemented by libcupti. Functions are called on the thread of the driver call.
struct standin_tracer {
  std::uint32_t version;
  void (*enter)(standin_call*);
  void (*exit)(standin_call*);
  void (*runtime)(standin_call*, bool exits);
  void (*resource)(std::uint32_t cbid, CUcontext, CUstream, void* descriptor);
  void (*work)(const standin_work*);
  void (*sync)(const standin_sync*);
  void (*memory)(const standin_memory*);
  void (*event)(const standin_event*);
  void (*stream)(const standin_stream*);
  void (*context)(const standin_context*);
  void (*device)(const standin_device*);
  /// 1 while graph-level tracing is on, else 0; an executable graph keeps the value at its instantiation.
  std::uint32_t (*traces_graphs)();
  void (*faults)(const char* text);
};

/// Implemented by libcuda.
struct standin_driver {
  std::uint32_t version;
  void (*attach)(const standin_tracer*);
  std::uint64_t (*now_ns)();
  /// Ids, 0 for handles that are not alive. `per_thread` chooses what a null stream means; a null context is the
  /// current one.
  std::uint32_t (*context_id)(CUcontext);
  std::uint32_t (*stream_id)(CUcontext, CUstream, bool per_thread);
  bool (*device_id)(CUcontext, std::uint32_t*);
  std::uint64_t (*node_id)(CUgraphNode);
  std::uint32_t (*graph_id)(CUgraph);
  std::uint32_t (*exec_id)(CUgraphExec);
  /// Calls the tracer's device, context or stream function for all that exist: 0, 1, 2.
  void (*dump)(std::uint32_t what);
  const char* (*fault_text)();
  bool (*initialised)();  ///< cuInit has succeeded
};
