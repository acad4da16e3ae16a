// SPDX-License-Identifier: Apache-2.0
// Which results of a CUDA call say that the context is lost: cuda.h says of each that "any further CUDA work will
// return the same error" or that the context "must be destroyed". The runtime's numbers are the same (driver_types.h).
#pragma once

#include <cstdint>
#include <cstdio>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>  // text

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

inline bool loses_context(std::int32_t result) noexcept {
  if (result < 214) return false;  // the usual way out
  switch (result) {
    case 214:  // ECC_UNCORRECTABLE
    case 220:  // NVLINK_UNCORRECTABLE
    case 226:  // CONTAINED
    case 700:  // ILLEGAL_ADDRESS
    case 702:  // LAUNCH_TIMEOUT
    case 710:  // ASSERT
    case 714:  // HARDWARE_STACK_ERROR
    case 715:  // ILLEGAL_INSTRUCTION
    case 716:  // MISALIGNED_ADDRESS
    case 717:  // INVALID_ADDRESS_SPACE
    case 718:  // INVALID_PC
    case 719:  // LAUNCH_FAILED
    case 721:  // TENSOR_MEMORY_LEAK
    case 810:  // MPS_CLIENT_TERMINATED
    case 911:  // EXTERNAL_DEVICE
      return true;
    default:
      return false;
  }
}

/// The line for the notes. `result_name` may be empty.
inline void describe_lost_context(char (&line)[280], const char* call, text result_name, std::int32_t result) noexcept {
  std::snprintf(
      line, sizeof(line),
      "%.60s returned %.60s (%d), after which CUDA does no more work: GPU records of that time may be missing", call,
      result_name.size != 0 ? result_name.data : "a fatal error", static_cast<int>(result));
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
