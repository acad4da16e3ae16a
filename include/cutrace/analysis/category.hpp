// SPDX-License-Identifier: Apache-2.0
// What an event is for, in the six words of the reports: init, memory, transfer, kernel, sync, other. Host calls are
// recognised by parts of their names, so that new functions of CUDA need no new rules, and so that a file, which has
// names and no table of functions, gets the categories of the live trace. All such rules stand here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/event.hpp>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

enum class category : std::uint8_t {
  init,      ///< start-up: cuInit, contexts, modules and libraries, JIT, instantiation of graphs
  memory,    ///< allocate, free, map, register, set
  transfer,  ///< copies and prefetches
  kernel,    ///< host: launches of kernels and graphs; GPU: kernels and graphs at work
  sync,      ///< host calls that wait, or ask whether waiting is over
  other,
};
constexpr std::size_t category_count = 6;

/// Short name, and the letter of the timeline.
inline const char* name_of(category c) noexcept {
  constexpr const char* names[] = {"init", "memory", "transfer", "kernel", "sync", "other"};
  return names[static_cast<std::size_t>(c)];
}
inline char letter_of(category c) noexcept { return "imtKso"[static_cast<std::size_t>(c)]; }

struct category_rule {
  const char* part;  ///< of the function's name, case-sensitive
  category is;
};

/// The first rule whose part occurs in the name decides. Specific parts stand before the general ones they contain.
inline constexpr category_rule category_rules[] = {
    {"SharedMem", category::other},  // cuFuncSetSharedMemConfig: a setting
    {"BatchMemOp", category::other},
    {"LaunchHostFunc", category::other},
    {"GraphInstantiate", category::init},
    {"GraphLaunch", category::kernel},
    {"Graph", category::other},  // nodes named after copies and kernels only describe them
    {"Occupancy", category::other},
    {"Synchronize", category::sync},
    {"StreamQuery", category::sync},  // who polls is waiting, though the call itself is not
    {"EventQuery", category::sync},
    {"cuInit", category::init},
    {"CtxCreate", category::init},
    {"CtxDestroy", category::init},
    {"PrimaryCtx", category::init},
    {"InitDevice", category::init},
    {"DeviceReset", category::init},
    {"Module", category::init},
    {"Library", category::init},
    {"cuLink", category::init},
    {"FatBinary", category::init},
    {"Launch", category::kernel},
    {"Memcpy", category::transfer},
    {"Prefetch", category::transfer},
    {"Mem", category::memory},  // cuMemAlloc, cuMemFree, cuMemsetD8, cuMemMap, cudaMemset, cuMemPoolCreate
    {"Malloc", category::memory},
    {"Free", category::memory},
    {"HostAlloc", category::memory},
    {"HostRegister", category::memory},
    {"HostUnregister", category::memory},
    {"Array", category::memory},
};

/// Category of a driver or runtime call. Pure, about 100 ns: callers that see many calls remember it by name.
inline category category_of_call(text name, copy_direction direction = copy_direction::unknown) noexcept {
  const std::string_view function(name.data, name.size);
  for (const category_rule& rule : category_rules)
    if (function.find(rule.part) != std::string_view::npos) return rule.is;
  return direction != copy_direction::unknown ? category::transfer : category::other;
}

/// Whether a call returns before the work is done that it asks for.
inline bool is_asynchronous_call(text name) noexcept {
  return std::string_view(name.data, name.size).find("Async") != std::string_view::npos;
}
/// Whether a call allocates memory of any kind. `api.bytes` of such a call is the size of the allocation, 0 where that
/// is not known. Functions with "Allocation" in their names ask about one.
inline bool allocates_memory(text name) noexcept {
  const std::string_view function(name.data, name.size);
  const auto has = [&](const char* part) { return function.find(part) != std::string_view::npos; };
  return (has("lloc") && !has("Allocation")) || has("MemCreate");
}

/// The arrow that viewers draw between a call and GPU work.
enum class call_arrow : std::uint8_t { none, to_work, from_work };
/// The calls that have an arrow are those at which Kineto (PyTorch's profiler) starts flows, recognised by the
/// beginnings of their names. Each comparison is with a literal, whose size the compiler knows, since the Chrome sink
/// needs the arrow of every call and of every piece of GPU work.
inline call_arrow arrow_of_call(text name) noexcept {
  const char* at = name.data;
  std::size_t left = name.size;
  const auto is = [&](const auto& literal) {
    constexpr std::size_t size = sizeof(literal) - 1;
    return left >= size && std::memcmp(at, literal, size) == 0;
  };
  if (!is("cu")) return call_arrow::none;
  const std::size_t prefix = is("cuda") ? 4 : 2;
  at += prefix;
  left -= prefix;
  if (is("Launch") || is("GraphLaunch") || is("Memcpy") || is("Memset") || is("StreamWaitEvent"))
    return call_arrow::to_work;
  if (is("StreamSynchronize") || is("DeviceSynchronize") || is("CtxSynchronize") || is("EventSynchronize"))
    return call_arrow::from_work;
  return call_arrow::none;
}

/// Category of any event; GPU work by kind. Stages, marks and descriptions are `other`.
inline category category_of(const event& e) noexcept {
  switch (e.kind) {
    case event_kind::api:
      return category_of_call(e.name, e.api.direction);
    case event_kind::kernel:
    case event_kind::graph_launch:
      return category::kernel;
    case event_kind::memcpy:
      return category::transfer;
    case event_kind::memset:
    case event_kind::memory:
      return category::memory;
    case event_kind::sync:
      return category::sync;
    case event_kind::jit:
      return category::init;
    default:
      return category::other;
  }
}

/// Whether a call of either API ended in an error. 600 is NOT_READY in both APIs, the answer to a query.
inline bool call_failed(const event& e) noexcept { return e.api.result != 0 && e.api.result != 600; }

/// Whether an allocation lies in the host's memory.
inline bool in_host_memory(const event& e) noexcept {
  return e.memory.memory == memory_kind::pinned || e.memory.memory == memory_kind::pageable;
}

/// A key for an address: two processes, as a merged trace has, may each have memory at the same one. Spread by Knuth's
/// multiplier, so that process ids, which are small, move it beyond any address of the same trace.
inline std::uint64_t address_in_process(const event& e, std::uint64_t address) noexcept {
  return address + std::uint64_t{e.process_id} * 0x9E3779B97F4A7C15u;
}

// What a call of the driver or the runtime does to the thread that makes it: launches, waits, copies and blocks,
// allocates. From its name, once for each name.

struct call_traits {
  category is = category::other;
  bool waits = false;      ///< until work of the device is done; a poll (cuStreamQuery) returns at once
  bool sets = false;       ///< a memset
  bool copies = false;     ///< a memcpy
  bool blocks = false;     ///< a memcpy that returns when the copy is done: no "Async" in its name
  bool allocates = false;  ///< allocates or frees memory of the device or pinned memory, which may stop the device
  bool launches = false;
};

/// Waiting: nsys' rule cuda_api_sync. Blocking copies: its rule cuda_memcpy_sync. Allocation: cudaMalloc, cudaFree and
/// their kin wait for the device and take locks of the driver; the stream-ordered cudaMallocAsync is made for loops and
/// is left out, as are pinned host memory's registration calls, which are start-up work.
inline call_traits traits_of_call(text name, copy_direction direction = copy_direction::unknown) noexcept {
  const std::string_view function(name.data, name.size);
  const auto has = [&](const char* part) { return function.find(part) != std::string_view::npos; };
  call_traits t;
  t.is = category_of_call(name, direction);
  const bool async = is_asynchronous_call(name);
  t.waits = t.is == category::sync && has("Synchronize");
  t.sets = has("Memset");
  t.copies = t.is == category::transfer && has("Memcpy");
  t.blocks = t.copies && !async;
  t.allocates = t.is == category::memory && !async && (has("Alloc") || has("alloc") || has("Free")) && !has("Pool") &&
                !has("Get");
  t.launches = t.is == category::kernel;
  return t;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
