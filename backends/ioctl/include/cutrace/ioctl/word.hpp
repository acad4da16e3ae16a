// SPDX-License-Identifier: Apache-2.0
// The command word of an ioctl, taken apart as <asm-generic/ioctl.h> puts it together. /dev/nvidia* follow it, type
// 'F'; /dev/nvidia-uvm does not: its words are plain numbers. So what a word means is decided by the device it went to.
#pragma once

#include <cstdint>
#include <cutrace/event.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace ioctls {

constexpr std::uint32_t number_of(std::uint32_t request) noexcept { return request & 0xff; }
constexpr char type_of(std::uint32_t request) noexcept { return static_cast<char>(request >> 8 & 0xff); }
/// Bytes of the parameter block, as the word gives them.
constexpr std::uint32_t size_of(std::uint32_t request) noexcept { return request >> 16 & 0x3fff; }

/// nv-ioctl-numbers.h and nvkms-ioctl.h of the open kernel modules.
inline constexpr char escape_type = 'F';
inline constexpr char modeset_type = 'm';
inline constexpr std::uint32_t transfer_number = 0xd3;  ///< NV_ESC_IOCTL_XFER_CMD: another command's block by pointer

constexpr bool is_transfer(ioctl_device device, std::uint32_t request) noexcept {
  return (device == ioctl_device::control || device == ioctl_device::gpu) && type_of(request) == escape_type &&
         number_of(request) == transfer_number;
}

}  // namespace ioctls
CUTRACE_END_NAMESPACE
