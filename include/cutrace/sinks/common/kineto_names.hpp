// SPDX-License-Identifier: Apache-2.0
// Categories and names of slices as PyTorch's Kineto spells them (libkineto output_json.cpp, CuptiActivity.h): HTA,
// TraceLens and others match on these words.
#pragma once

#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/names.hpp>
#include <cutrace/output/json_text.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

inline std::string_view chrome_category(const event& e) noexcept {
  switch (e.kind) {
    case event_kind::stage:
    case event_kind::nvtx:
      return "user_annotation";
    case event_kind::api:
      return e.api.runtime_api ? "cuda_runtime" : "cuda_driver";
    case event_kind::kernel:
    case event_kind::graph_launch:
      return "kernel";
    case event_kind::memcpy:
      return "gpu_memcpy";
    case event_kind::memset:
      return "gpu_memset";
    case event_kind::sync:
      return "cuda_sync";
    default:
      return to_string(e.kind);
  }
}

/// Copies, sets and synchronisations have Kineto's names; graphs, memory and losses are named by what they are;
/// everything else has its own name. `room`: for a name that is made here; the result is valid as long as it and `e`.
inline std::string_view chrome_name(const event& e, std::string& room) {
  switch (e.kind) {
    case event_kind::memcpy:
      room.assign("Memcpy ").append(to_string(e.memcpy_.direction)).append(" (").append(to_string(e.memcpy_.source));
      return room.append(" -> ").append(to_string(e.memcpy_.destination)).append(")");
    case event_kind::memset:
      return room.assign("Memset (").append(to_string(e.memset_.memory)).append(")");
    case event_kind::sync:
      return to_string(e.sync.what);
    case event_kind::graph_launch:
      room.assign("CUDA graph");
      if (e.kernel.graph_id != 0) room.append(" ").append(std::to_string(e.kernel.graph_id));
      return room;
    case event_kind::memory:
      room.assign(to_string(e.memory.operation)).append(" ");
      return room.append(std::to_string(e.memory.bytes)).append(" bytes");
    case event_kind::loss:
      return room.assign("lost: ").append(to_string(e.loss.cause));
    default:
      break;
  }
  // A kernel named "kernel" is written "Kernel": Kineto's readers take the word "kernel" for the category.
  const std::string_view name = view_of(e.name);
  return e.kind == event_kind::kernel && name == "kernel" ? std::string_view("Kernel") : name;
}

}  // namespace detail
CUTRACE_END_NAMESPACE
