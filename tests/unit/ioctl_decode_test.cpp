// SPDX-License-Identifier: Apache-2.0
// The decoder of NVIDIA's ioctls on parameter blocks written byte by byte: command words as they were seen in the wild,
// statuses, handles, transfers, other driver branches, and blocks that were cut off.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <cutrace/ioctl/decode.hpp>
#include <cutrace/ioctl/device_numbers.hpp>
#include <cutrace/names.hpp>
#include <iterator>
#include <string>
#include <vector>

namespace ioctl_decode_test {

namespace {

using namespace cutrace;          // NOLINT(google-build-using-namespace)
using namespace cutrace::ioctls;  // NOLINT(google-build-using-namespace)

/// A parameter block, filled with what must not be mistaken for a field.
struct block {
  std::vector<std::uint8_t> bytes;
  explicit block(std::size_t n) : bytes(n, 0xee) {}
  block& word(std::size_t at, std::uint32_t value) {
    std::memcpy(&bytes.at(at + 3) - 3, &value, sizeof(value));
    return *this;
  }
  block& address(std::size_t at, std::uint64_t value) {
    std::memcpy(&bytes.at(at + 7) - 7, &value, sizeof(value));
    return *this;
  }
  bytes_view view() const { return {bytes.data(), bytes.size()}; }
};

capture seen(ioctl_device device, std::uint32_t request, const block& entry, const block& exit,
             std::uint32_t branch = 580) {
  capture c;
  c.device = device;
  c.request = request;
  c.branch = branch;
  c.entry = entry.view();
  c.exit = exit.view();
  return c;
}
std::string name_of(std::uint32_t request, std::uint32_t branch = 580) {
  capture c;
  c.device = ioctl_device::control;
  c.request = request;
  c.branch = branch;
  const decoded d = decode(c);
  return d.name != nullptr ? d.name : "";
}
std::string uvm_name(std::uint32_t request, std::uint32_t branch = 580) {
  capture c;
  c.device = ioctl_device::uvm;
  c.request = request;
  c.branch = branch;
  const decoded d = decode(c);
  return d.name != nullptr ? d.name : "";
}
std::string text_of(const char* t) { return t != nullptr ? t : ""; }

TEST_CASE("command words that drivers were seen to get") {
  CHECK(name_of(0xc020462a) == "NV_ESC_RM_CONTROL");
  CHECK(name_of(0xc030462b) == "NV_ESC_RM_ALLOC");
  CHECK(name_of(0xc020462b) == "NV_ESC_RM_ALLOC");
  CHECK(name_of(0xc0104629) == "NV_ESC_RM_FREE");
  CHECK(name_of(0xc038464e) == "NV_ESC_RM_MAP_MEMORY");
  CHECK(name_of(0xc020464f) == "NV_ESC_RM_UNMAP_MEMORY");
  CHECK(name_of(0xc01c4634) == "NV_ESC_RM_DUP_OBJECT");
  CHECK(name_of(0xc0384627) == "NV_ESC_RM_ALLOC_MEMORY");
  CHECK(name_of(0xc00446c9) == "NV_ESC_REGISTER_FD");
  CHECK(name_of(0xc01046ce) == "NV_ESC_ALLOC_OS_EVENT");
  CHECK(name_of(0xc04846d2) == "NV_ESC_CHECK_VERSION_STR");
  CHECK(name_of(0xc00846d6) == "NV_ESC_SYS_PARAMS");
  CHECK(name_of(0xc01046d3) == "NV_ESC_IOCTL_XFER_CMD");
  CHECK(name_of(0xca0046c8) == "NV_ESC_CARD_INFO");
  CHECK(name_of(0xc90046c8) == "NV_ESC_CARD_INFO");  // another driver's size
  CHECK(name_of(0xc00846da) == "NV_ESC_WAIT_OPEN_COMPLETE");
}

TEST_CASE("numbers that are copied from page to page and are no command of NVIDIA") {
  for (const std::uint32_t request : {0xc0044601u, 0xc0044602u, 0xc0044621u, 0xc0044630u, 3221766657u}) {
    CAPTURE(request);
    CHECK(name_of(request).empty());
  }
  CHECK(name_of(0xc0204e2a).empty());  // type 'N'
}

TEST_CASE("UVM's words are plain numbers") {
  CHECK(uvm_name(0x30000001) == "UVM_INITIALIZE");
  CHECK(uvm_name(0x30000002) == "UVM_DEINITIALIZE");
  CHECK(uvm_name(23) == "UVM_CREATE_RANGE_GROUP");
  CHECK(uvm_name(33) == "UVM_MAP_EXTERNAL_ALLOCATION");
  CHECK(uvm_name(37) == "UVM_REGISTER_GPU");
  CHECK(uvm_name(51) == "UVM_MIGRATE");
  CHECK(uvm_name(80) == "UVM_DISCARD");
  CHECK(uvm_name(0xc020462a).empty());  // the device decides what a word means
  CHECK(name_of(51).empty());
}

TEST_CASE("control command: handles, the command's name, the status inside the block") {
  block entry(32), exit(32);
  for (block* b : {&entry, &exit}) b->word(0, 0xc1d00001).word(4, 0x5c000002).word(8, 0x20800102).word(28, 0xdeadbeef);
  exit.word(28, 0x56);
  const decoded d = decode(seen(ioctl_device::control, 0xc020462a, entry, exit));
  CHECK(text_of(d.name) == "NV_ESC_RM_CONTROL");
  CHECK(text_of(d.command_name) == "NV2080_CTRL_CMD_GPU_GET_INFO_V2");
  CHECK(d.has_command);
  CHECK(d.command == 0x20800102);
  CHECK(d.client == 0xc1d00001);
  CHECK(d.object == 0x5c000002);
  CHECK(d.parent == 0);
  CHECK(d.has_status);
  CHECK(d.status == 0x56);
  CHECK(text_of(d.status_name) == "NV_ERR_NOT_SUPPORTED");
  CHECK(d.error == 0);
  CHECK(d.bytes == 32);
  exit.word(28, 0);
  CHECK(text_of(decode(seen(ioctl_device::gpu, 0xc020462a, entry, exit)).status_name) == "NV_OK");
  entry.word(8, 0x2080ff77);
  const decoded unknown = decode(seen(ioctl_device::control, 0xc020462a, entry, exit));
  CHECK(unknown.command_name == nullptr);
  CHECK(unknown.command == 0x2080ff77);
}

TEST_CASE("a system call that failed leaves no status") {
  block b(32);
  b.word(28, 0);
  capture c = seen(ioctl_device::control, 0xc020462a, b, b);
  c.result = -ENOTTY;
  const decoded d = decode(c);
  CHECK(d.error == ENOTTY);
  CHECK_FALSE(d.has_status);
  CHECK(d.status_name == nullptr);
}

TEST_CASE("a call that a signal interrupted: the kernel keeps how it is begun again to itself") {
  block b(32);
  for (const int kept : {512, 513, 514, 516}) {
    CAPTURE(kept);
    capture c = seen(ioctl_device::control, 0xc020462a, b, b);
    c.result = -kept;
    const decoded d = decode(c);
    CHECK(d.error == EINTR);
    CHECK_FALSE(d.has_status);
  }
}

TEST_CASE("allocation in both of its forms: the class is named, the status stands elsewhere") {
  block entry(48), exit(48);
  for (block* b : {&entry, &exit}) b->word(0, 1).word(4, 2).word(8, 0).word(12, 0x80);
  exit.word(8, 0xcaf00001).word(40, 0x51).word(28, 0);
  decoded d = decode(seen(ioctl_device::control, 0xc030462b, entry, exit));
  CHECK(text_of(d.command_name) == "NV01_DEVICE_0");
  CHECK(text_of(d.status_name) == "NV_ERR_NO_MEMORY");
  CHECK(d.parent == 2);
  CHECK(d.object == 0xcaf00001);  // the driver chose the handle
  exit.word(28, 0x1f);
  d = decode(seen(ioctl_device::control, 0xc020462b, entry, exit));
  CHECK(text_of(d.status_name) == "NV_ERR_INVALID_ARGUMENT");
}

TEST_CASE("transfer: the inner command is reported, and an unread one is itself") {
  block entry(16), exit(16), inner_entry(32), inner_exit(32);
  for (block* b : {&entry, &exit}) b->word(0, 0x2a).word(4, 32).address(8, 0x7f0000001000);
  for (block* b : {&inner_entry, &inner_exit}) b->word(0, 7).word(4, 8).word(8, 0x101).word(28, 0);
  capture c = seen(ioctl_device::control, 0xc01046d3, entry, exit);
  const block_place place = own_block(c.device, c.request, 0x1234, c.entry);
  CHECK(place.address == 0x7f0000001000);
  CHECK(place.number == 0x2a);
  CHECK(place.bytes == 32);
  CHECK(status_place(c.device, place, 580) == 28);
  c.inner_entry = inner_entry.view();
  c.inner_exit = inner_exit.view();
  const decoded d = decode(c);
  CHECK(d.transferred);
  CHECK(text_of(d.name) == "NV_ESC_RM_CONTROL");
  CHECK(text_of(d.command_name) == "NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION");
  CHECK(text_of(d.status_name) == "NV_OK");
  CHECK(d.client == 7);
  c.entry.size = 15;
  const decoded cut = decode(c);
  CHECK_FALSE(cut.transferred);
  CHECK(text_of(cut.name) == "NV_ESC_IOCTL_XFER_CMD");
  CHECK(own_block(ioctl_device::uvm, 0xc01046d3, 5, entry.view()).number == 0xc01046d3);
}

TEST_CASE("a status behind what was read of the block comes on its own") {
  block b(64);
  const block_place place = own_block(ioctl_device::uvm, 33, 0, b.view());
  CHECK(status_place(ioctl_device::uvm, place, 535) == 1196);
  CHECK(status_place(ioctl_device::uvm, place, 580) == 9260);
  capture c = seen(ioctl_device::uvm, 33, b, b);
  CHECK_FALSE(decode(c).has_status);
  c.status_read = true;
  c.status = 0x1a;
  CHECK(decode(c).status == 0x1a);
  CHECK(text_of(decode(c).status_name) == "NV_ERR_INSUFFICIENT_RESOURCES");
}

TEST_CASE("what differs between driver branches") {
  CHECK(name_of(0xc018465f, 535) == "NV_ESC_RM_NVLOG_CTRL");
  CHECK(name_of(0xc018465f, 550) == "NV_ESC_RM_LOCKLESS_DIAGNOSTIC");
  CHECK(name_of(0xc018465f, 0) == "NV_ESC_RM_LOCKLESS_DIAGNOSTIC");
  CHECK(name_of(0xc018465f, 900) == "NV_ESC_RM_LOCKLESS_DIAGNOSTIC");
  CHECK(name_of(0xc018465f, 470) == "NV_ESC_RM_NVLOG_CTRL");
  CHECK(status_place(ioctl_device::control, {0, 0x57, 64}, 580) == 56);
  CHECK(status_place(ioctl_device::control, {0, 0x57, 56}, 570) == 48);
  CHECK(status_place(ioctl_device::control, {0, 0x57, 56}, 560) == 48);  // not in the tables: the nearest older branch
  CHECK(status_place(ioctl_device::uvm, {0, 34, 0}, 595) == 8);
  CHECK(status_place(ioctl_device::uvm, {0, 34, 0}, 580) == 16);
  CHECK(name_of(0xc0004632, 0) == "NV_ESC_RM_CONFIG_GET");  // not in the newest branch, but it has no other name
  CHECK(text_of(control_name(0x107, 535)) == "NV0000_CTRL_CMD_SYSTEM_SET_MEMORY_SIZE");
  CHECK(text_of(control_name(0x107, 550)) == "NV0000_CTRL_CMD_SYSTEM_SET_MEMORY_SIZE");  // not in 550: the older name
  CHECK(text_of(control_name(0x107, 580)) != "NV0000_CTRL_CMD_SYSTEM_SET_MEMORY_SIZE");
}

TEST_CASE("a block that is shorter than the one that is known has no status to read") {
  CHECK(status_place(ioctl_device::control, {0, 0x2a, 28}, 580) == none);
  CHECK(status_place(ioctl_device::control, {0, 0x2a, 40}, 580) == 28);
  CHECK(status_place(ioctl_device::modeset, {0, 0x2a, 32}, 580) == none);
}

TEST_CASE("bytes that were not read are never looked at") {
  // Each size in an allocation of just that size, so that ASan reports a read of the byte behind the block.
  for (std::size_t size = 0; size <= 48; ++size) {
    const block b(size);
    for (const std::uint32_t request : {0xc020462au, 0xc030462bu, 0xc01046d3u, 0xc0384627u, 51u, 0x30000001u}) {
      for (const ioctl_device device : {ioctl_device::control, ioctl_device::uvm, ioctl_device::modeset}) {
        capture c = seen(device, request, b, b);
        c.inner_entry = c.inner_exit = b.view();
        const decoded d = decode(c);
        if (size == 0) {
          CHECK_FALSE(d.has_status);
          CHECK(d.client == 0);
        }
      }
    }
  }
}

TEST_CASE("device numbers") {
  const device_numbers d(
      "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n238 nvidia-uvm\n241 nvidia-caps\n\nBlock devices:\n"
      "  7 nvidia-uvm\n");
  CHECK(d.uvm_major() == 238);
  CHECK(d.caps_major() == 241);
  CHECK(d.find(195, 255).kind == ioctl_device::control);
  CHECK(std::string(d.find(195, 255).name) == "nvidiactl");
  CHECK(d.find(195, 254).kind == ioctl_device::modeset);
  CHECK(std::string(d.find(195, 3).name) == "nvidia3");
  CHECK(d.find(238, 0).kind == ioctl_device::uvm);
  CHECK(d.find(238, 1).kind == ioctl_device::uvm_tools);
  CHECK(std::string(d.find(241, 2).name) == "nvidia-cap2");
  CHECK(d.find(1, 3).kind == ioctl_device::unknown);
  CHECK(d.find(7, 0).kind == ioctl_device::unknown);
  device_numbers without("Character devices:\n  1 mem\n");
  CHECK(without.find(0, 0).kind == ioctl_device::unknown);  // no such driver is no major 0
  CHECK(without.add("control=1:3,uvm=1:5"));
  CHECK(without.find(1, 3).kind == ioctl_device::control);
  CHECK(without.find(1, 5).kind == ioctl_device::uvm);
  CHECK(without.find(1, 7).kind == ioctl_device::unknown);
  CHECK_FALSE(without.add("control=1"));
  CHECK_FALSE(without.add("disk=1:3"));
}

TEST_CASE("the driver's branch") {
  CHECK(driver_branch("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x)\n"
                      "GCC version:  gcc version 12.2.0\n") == 580);
  CHECK(driver_branch("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun") == 535);
  CHECK(driver_branch("") == 0);
  CHECK(driver_branch("NVRM version: none\nGCC 123.4.5\n") == 0);
}

/// Lookups are binary searches: tables must be sorted, and rows of one number that begin at different branches must
/// not overlap.
template <class Row, std::size_t N>
void in_order(const Row (&table)[N]) {
  for (std::size_t i = 0; i < N; ++i) {
    CAPTURE(i);
    CHECK(table[i].name[0] != '\0');
    CHECK((table[i].until == 0 || table[i].since <= table[i].until));
    if (i == 0) continue;
    CHECK(table[i - 1].number <= table[i].number);
    if (table[i - 1].number == table[i].number && table[i - 1].since != table[i].since)
      CHECK((table[i - 1].until != 0 && table[i - 1].until < table[i].since));
  }
}
TEST_CASE("tables are in order") {
  in_order(tables::escapes);
  in_order(tables::uvm_commands);
  in_order(tables::statuses);
  in_order(tables::classes);
  in_order(tables::controls);
  CHECK(std::size(tables::controls) > 1500);
  for (const escape& e : tables::escapes) {
    CAPTURE(e.name);
    for (const std::uint16_t place : {e.status, e.client, e.parent, e.object, e.object_class, e.command})
      CHECK((place == none || place + 4u <= e.bytes));
  }
  CHECK(text_of(class_name(0xcbc0, 580)) == "HOPPER_COMPUTE_A");
}

TEST_CASE("words of device kinds") {
  CHECK(std::string(to_string(ioctl_device::control)) == "control");
  CHECK(std::string(to_string(ioctl_device::uvm_tools)) == "uvm_tools");
  char room[11];
  CHECK(std::string(hex_name(0xffffffff, room, sizeof(room))) == "0xffffffff");
}

}  // namespace

}  // namespace ioctl_decode_test
