// SPDX-License-Identifier: Apache-2.0
// Which results of a CUDA call say that the context is lost: cuda.h says of each that "any further CUDA work will
// return the same error" or that the context "must be destroyed". The runtime's numbers are the same (driver_types.h).
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>

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

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
