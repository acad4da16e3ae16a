// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: no parameter block, however short or wild, makes the decoder of NVIDIA's ioctls read outside of it
// or say something that does not fit together. The first bytes choose device, command word, driver branch and result;
// of the rest the four blocks are cut, each in memory of exactly its size. random_driver.cpp where there is no
// libFuzzer.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/ioctl/decode.hpp>
#include <cutrace/ioctl/device_numbers.hpp>
#include <memory>
#include <string_view>

namespace {

using namespace cutrace;          // NOLINT(google-build-using-namespace)
using namespace cutrace::ioctls;  // NOLINT(google-build-using-namespace)

/// A copy of its own, so that the sanitizer sees the byte behind its end.
struct owned {
  std::unique_ptr<std::uint8_t[]> bytes;
  std::size_t size = 0;
  void take(const std::uint8_t*& data, std::size_t& left, std::size_t wanted) {
    size = wanted < left ? wanted : left;
    bytes.reset(new std::uint8_t[size]);
    if (size != 0) std::memcpy(bytes.get(), data, size);
    data += size;
    left -= size;
  }
  bytes_view view() const { return {bytes.get(), size}; }
};

void must(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t head = 12;
  if (size < head) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  static_cast<void>(driver_branch(all));
  device_numbers numbers(all);
  static_cast<void>(numbers.add(all));

  capture c;
  c.device = static_cast<ioctl_device>(data[0] % 7);
  std::memcpy(&c.request, data + 1, sizeof(c.request));
  if ((data[5] & 1) != 0) c.request = (c.request & 0xffff00ffu) | static_cast<std::uint32_t>(escape_type) << 8;
  if ((data[5] & 2) != 0) c.request &= 0xff;
  c.branch = (data[5] & 4) != 0 ? 0u : 535u + data[6];
  c.result = (data[5] & 8) != 0 ? -static_cast<std::int64_t>(data[7]) : 0;
  c.status_read = (data[5] & 16) != 0;
  std::memcpy(&c.status, data + 8, sizeof(c.status));
  const std::uint8_t* from = data + head;
  std::size_t left = size - head;
  owned blocks[4];
  const std::size_t share = data[7] % 65;
  for (owned& b : blocks) b.take(from, left, share);
  c.entry = blocks[0].view();
  c.exit = blocks[1].view();
  c.inner_entry = blocks[2].view();
  c.inner_exit = blocks[3].view();

  const decoded d = decode(c);
  must(d.error >= 0 && d.error < 4096);
  must(!d.has_status || d.error == 0);
  must(d.status_name == nullptr || d.has_status);
  must(d.command_name == nullptr || d.has_command);
  must(!d.transferred || is_transfer(c.device, c.request));
  must(d.name == nullptr || std::strlen(d.name) < 120);
  const block_place block = own_block(c.device, c.request, 0, c.entry);
  must(block.number == d.number);
  static_cast<void>(status_place(c.device, block, c.branch));
  return 0;
}
