// SPDX-License-Identifier: Apache-2.0
// What a call of the driver or the runtime does to the thread that makes it: launches, waits, copies and blocks,
// allocates. Told from its name, once for each name.
#pragma once

#include <cstdint>
#include <cutrace/analysis/category.hpp>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct call_traits {
  category is = category::other;
  bool waits = false;      ///< until work of the device is done; polling (cuStreamQuery) returns at once and does not
  bool copies = false;     ///< and
  bool blocks = false;     ///< copies that return when the copy is done: no "Async" in the name
  bool allocates = false;  ///< or frees device memory in a way that may stop the device
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
  const bool async = has("Async");
  t.waits = t.is == category::sync && has("Synchronize");
  t.copies = t.is == category::transfer && has("Memcpy");
  t.blocks = t.copies && !async;
  t.allocates = t.is == category::memory && !async && (has("Alloc") || has("alloc") || has("Free")) && !has("Pool") &&
                !has("Get");
  t.launches = t.is == category::kernel;
  return t;
}

}  // namespace analysis
CUTRACE_END_NAMESPACE
