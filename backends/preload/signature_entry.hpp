// SPDX-License-Identifier: Apache-2.0
// The shape of the generated table of signatures: what is known about a driver function by its symbol, and the sizes
// from which follows where a caller puts each argument. Plain data, no CUDA header needed.
#pragma once

#include <cstdint>
#include <cutrace/cupti/functions_entry.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace preload {

struct argument_place {
  std::uint16_t offset;  ///< in CUPTI's structure of the arguments, as function_parameter::offset
  std::uint16_t bytes;
  bool floating;
};

struct signature {
  cupti::function_entry function;
  std::uint16_t first;  ///< index of its first place; places are in the order of the arguments
  std::uint8_t count;
  bool placed;  ///< the places give all arguments; false: unknown, or one is a structure of 9 to 16 bytes
};

}  // namespace preload
CUTRACE_END_NAMESPACE
