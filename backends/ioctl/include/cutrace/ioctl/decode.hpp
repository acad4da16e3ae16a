// SPDX-License-Identifier: Apache-2.0
// The decoder: what was seen of an ioctl on a device of NVIDIA -> what it was. A pure function of bytes, without
// allocation, for any thread; reads no byte outside of what it is given, whatever those say. What it does not know is
// reported as a number, never left out.
//
// Structures: NVOS*_PARAMETERS of nvos.h, nv_ioctl_* of nv-ioctl.h, UVM_*_PARAMS of uvm_ioctl.h in NVIDIA's open kernel
// modules; the tables hold where their fields stand.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cutrace/event.hpp>
#include <cutrace/ioctl/names.hpp>
#include <cutrace/ioctl/word.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace ioctls {

/// Bytes of the program's memory as they were found; `size` 0: not read.
struct bytes_view {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;

  /// The little-endian word at `place`; false where it was not read.
  bool word(std::size_t place, std::uint32_t& to) const noexcept {
    if (data == nullptr || place > size || size - place < sizeof(to)) return false;
    std::memcpy(&to, data + place, sizeof(to));
    return true;
  }
  bool word(std::size_t place, std::uint64_t& to) const noexcept {
    if (data == nullptr || place > size || size - place < sizeof(to)) return false;
    std::memcpy(&to, data + place, sizeof(to));
    return true;
  }
};

/// What was seen. 64 bytes of each block are enough for all fields but some statuses, which come on their own.
struct capture {
  ioctl_device device = ioctl_device::unknown;
  std::uint32_t request = 0;
  std::uint32_t branch = 0;            ///< driver_branch, 0: not known
  std::int64_t result = 0;             ///< of the system call as the kernel returns it: -errno, else what it returned
  bytes_view entry, exit;              ///< the parameter block before and after
  bytes_view inner_entry, inner_exit;  ///< NV_ESC_IOCTL_XFER_CMD: the block that it points to
  bool status_read = false;            ///< `status` was read at `status_place`, after the call
  std::uint32_t status = 0;
};

/// The block of the command itself: the ioctl's parameter, or what a transfer (NV_ESC_IOCTL_XFER_CMD) points to.
struct block_place {
  std::uint64_t address = 0;  ///< in the program
  std::uint32_t number = 0;   ///< of the escape (NV_ESC_*), or the UVM word
  std::uint32_t bytes = 0;    ///< by the command word or the transfer, 0: not given (UVM)
};

/// Where the command's own block lies: at `parameter`, or for a transfer where its `entry` bytes say. A transfer whose
/// `entry` was not read counts as the command itself.
inline block_place own_block(ioctl_device device, std::uint32_t request, std::uint64_t parameter,
                             bytes_view entry) noexcept {
  if (device == ioctl_device::uvm || device == ioctl_device::uvm_tools) return {parameter, request, 0};
  block_place p{parameter, number_of(request), size_of(request)};
  block_place inner;
  if (is_transfer(device, request) && entry.word(0, inner.number) && entry.word(4, inner.bytes) &&
      entry.word(8, inner.address))
    return inner;
  return p;
}

/// Byte in the command's own block at which the NV_STATUS stands; `none` where it has none or that is not known.
inline std::uint16_t status_place(ioctl_device device, const block_place& block, std::uint32_t branch) noexcept {
  if (device == ioctl_device::uvm || device == ioctl_device::uvm_tools) {
    const uvm_command* c = find_uvm(block.number, branch);
    return c != nullptr ? c->status : none;
  }
  if (device != ioctl_device::control && device != ioctl_device::gpu) return none;
  const escape* e = find_escape(block.number, block.bytes, branch);
  // A smaller block is another version's, with its status elsewhere; a larger one is taken to add fields at its end.
  if (e == nullptr || (e->bytes != 0 && block.bytes != 0 && block.bytes < e->bytes)) return none;
  return e->status;
}

/// What it was. Names are literals, or nullptr where a number has none.
struct decoded {
  const char* name = nullptr;
  const char* command_name = nullptr;
  const char* status_name = nullptr;
  std::uint32_t number = 0;  ///< of the escape, or the UVM word
  std::uint32_t bytes = 0;
  std::uint32_t command = 0, status = 0;
  std::uint32_t client = 0, parent = 0, object = 0;
  std::int32_t error = 0;
  bool transferred = false, has_command = false, has_status = false;
};

namespace detail {

/// errno of a system call; 0: it succeeded. Results that the kernel keeps to itself (ERESTARTSYS and so on) are of a
/// call that a signal interrupted, and that is begun again or fails with EINTR.
inline std::int32_t error_of(std::int64_t result) noexcept {
  if (result >= 0 || result <= -4096) return 0;
  return result <= -512 && result >= -516 ? EINTR : static_cast<std::int32_t>(-result);
}

inline std::uint32_t field(bytes_view from, std::uint16_t place) noexcept {
  std::uint32_t value = 0;
  if (place != none) static_cast<void>(from.word(place, value));
  return value;
}

inline void read_escape(const capture& c, const block_place& block, bytes_view before, bytes_view after, decoded& d) {
  const escape* e = find_escape(d.number, block.bytes, c.branch);
  if (e == nullptr) return;
  d.name = e->name;
  d.client = field(before, e->client);
  d.parent = field(before, e->parent);
  d.object = field(before, e->object);
  // Handles that the program leaves to the driver are in the block afterwards.
  if (d.object == 0) d.object = field(after, e->object);
  if (d.client == 0) d.client = field(after, e->client);
  const std::uint16_t place = e->command != none ? e->command : e->object_class;
  d.has_command = place != none && before.word(place, d.command);
  if (d.has_command)
    d.command_name = e->command != none ? control_name(d.command, c.branch) : class_name(d.command, c.branch);
}

}  // namespace detail

inline decoded decode(const capture& c) noexcept {
  decoded d;
  const block_place block = own_block(c.device, c.request, 0, c.entry);
  d.number = block.number;
  d.bytes = block.bytes;
  d.error = detail::error_of(c.result);
  d.transferred = is_transfer(c.device, c.request) && c.entry.size >= 16;
  const bytes_view before = d.transferred ? c.inner_entry : c.entry;
  const bytes_view after = d.transferred ? c.inner_exit : c.exit;
  switch (c.device) {
    case ioctl_device::control:
    case ioctl_device::gpu:
      if (type_of(c.request) == escape_type) detail::read_escape(c, block, before, after, d);
      break;
    case ioctl_device::uvm:
    case ioctl_device::uvm_tools:
      if (const uvm_command* u = find_uvm(d.number, c.branch)) {
        d.name = u->name;
        d.bytes = u->bytes;
      }
      break;
    case ioctl_device::modeset:  // NvKmsIoctlParams: the command, its size, a pointer; its numbers have no table here
      if (type_of(c.request) == modeset_type) {
        d.name = "NVKMS_IOCTL_IOWR";
        d.has_command = c.entry.word(0, d.command);
      }
      break;
    case ioctl_device::caps:
    case ioctl_device::unknown:
      break;
  }
  // The kernel writes the block back only where the call itself succeeded.
  const std::uint16_t place = d.error == 0 ? status_place(c.device, block, c.branch) : none;
  if (place != none) {
    d.has_status = after.word(place, d.status);
    if (!d.has_status && c.status_read) {
      d.status = c.status;
      d.has_status = true;
    }
    if (d.has_status) d.status_name = ioctls::status_name(d.status, c.branch);
  }
  return d;
}

/// "0x..." for what has no name. `room`: 11 bytes at least.
inline const char* hex_name(std::uint32_t number, char* room, std::size_t bytes) noexcept {
  std::snprintf(room, bytes, "0x%x", static_cast<unsigned>(number));
  return room;
}

}  // namespace ioctls
CUTRACE_END_NAMESPACE
