// SPDX-License-Identifier: Apache-2.0
// Records of the eBPF programs in the kernel, as bytes, and the events made of them: ioctls that succeeded, errors of
// the GPU, interrupts and the rest, which no machine without a GPU makes.
#include "backends/ebpf/kernel_events.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "backends/ebpf/call_stream.hpp"
#include "backends/ebpf/module_functions.hpp"
#include "recording_emitter.hpp"

namespace kernel_events_test {

namespace {

using namespace cutrace_ebpf;  // NOLINT(google-build-using-namespace)
using cutrace::argument;
using cutrace::argument_kind;
using cutrace::event;
using support::recording_emitter;
using support::string_of;

/// Keeps the arguments, too, which live no longer than the call.
struct keeping_emitter : recording_emitter {
  std::vector<argument> arguments;
  void emit(const event& e) override {
    if (e.kind == cutrace::event_kind::system)
      arguments.assign(e.system.arguments, e.system.arguments + e.system.argument_count);
    recording_emitter::emit(e);
  }
};

template <class Record>
Record record(std::uint16_t kind) {
  Record r = make_record<Record>(kind, 10);
  r.head.thread = 11;
  r.head.cpu = 3;
  return r;
}

kernel_view view_580() {
  kernel_view v;
  v.devices = cutrace::ioctls::device_numbers("Character devices:\n195 nvidia\n238 nvidia-uvm\n");
  v.branch = 580;
  v.functions = {"nvidia_unlocked_ioctl", "nvidia_poll"};
  return v;
}

/// A record's bytes, hidden from the optimiser: it would warn of reads past their end, made for other kinds only.
template <class Record>
const unsigned char* start_of(const Record& r) {
  const void* p = &r;
  asm("" : "+r"(p) : : "memory");
  return static_cast<const unsigned char*>(p);
}

template <class Record>
event reported(const Record& r, keeping_emitter& to) {
  const kernel_events kernel(view_580());
  REQUIRE(kernel_events::knows(r.head.kind));
  CHECK(bytes_of(r.head.kind) == sizeof(r));
  kernel.emit(start_of(r), r.head.kind, to, [](std::uint64_t ns) { return static_cast<std::int64_t>(ns + 5); });
  REQUIRE(to.events.size() == 1);
  return to.events[0];
}

void put(__u8* block, std::size_t at, std::uint32_t value) { std::memcpy(block + at, &value, sizeof(value)); }

/// Records with the parameter blocks that follow them.
struct ioctl_record : cutrace_ebpf_ioctl {
  __u8 entry[CUTRACE_EBPF_BLOCK], exit[CUTRACE_EBPF_BLOCK];
};
struct transfer_record : ioctl_record {
  __u8 inner_entry[CUTRACE_EBPF_BLOCK], inner_exit[CUTRACE_EBPF_BLOCK];
};

template <class Record = ioctl_record>
Record ioctl_of(std::uint32_t device, std::uint32_t request, std::uint16_t kind = CUTRACE_EBPF_IOCTL) {
  auto r = record<Record>(kind);
  r.begin_ns = 1000;
  r.end_ns = 3000;
  r.id = 77;
  r.device = device;
  r.request = request;
  return r;
}

}  // namespace

TEST_CASE("kernel: a control command whose block was read after the call alone: its status, its handles, its call") {
  keeping_emitter to;
  ioctl_record r = ioctl_of(195u << 20 | 255, 0xc020462a);
  r.bytes[1] = 32;
  put(r.entry, 0, 0xbadbad);  // what the ring held before
  put(r.exit, 0, 0xc1d00001);
  put(r.exit, 4, 0x5c000002);
  put(r.exit, 8, 0x20800102);
  put(r.exit, 28, 0x56);
  const event e = reported(r, to);
  CHECK(e.kind == cutrace::event_kind::ioctl);
  CHECK(string_of(e.name) == "NV_ESC_RM_CONTROL");
  CHECK(string_of(e.ioctl_.node) == "nvidiactl");
  CHECK(string_of(e.ioctl_.command_name) == "NV2080_CTRL_CMD_GPU_GET_INFO_V2");
  CHECK(string_of(e.ioctl_.status_name) == "NV_ERR_NOT_SUPPORTED");
  CHECK(e.ioctl_.client == 0xc1d00001);
  CHECK(e.ioctl_.object == 0x5c000002);
  CHECK(e.ioctl_.error == 0);
  CHECK(e.ioctl_.enclosing == 77);
  CHECK(e.thread_id == 11);
  CHECK(e.start_ns == 1005);
  CHECK(e.end_ns == 3005);
}

TEST_CASE("kernel: an object: its class as it was before, the handle that the driver chose from after") {
  keeping_emitter to;
  ioctl_record r = ioctl_of(195u << 20 | 255, 0xc030462b);
  r.bytes[0] = r.bytes[1] = 48;
  put(r.entry, 0, 0xc1d00001);
  put(r.entry, 4, 0x5c000001);
  put(r.entry, 12, 0x2080);
  put(r.exit, 0, 0xc1d00009);  // as no driver does: what was there before is reported
  put(r.exit, 8, 0x5c000002);
  put(r.exit, 40, 0x1f);
  const event e = reported(r, to);
  CHECK(string_of(e.name) == "NV_ESC_RM_ALLOC");
  CHECK(string_of(e.ioctl_.command_name) == "NV20_SUBDEVICE_0");
  CHECK(string_of(e.ioctl_.status_name) == "NV_ERR_INVALID_ARGUMENT");
  CHECK(e.ioctl_.client == 0xc1d00001);
  CHECK(e.ioctl_.parent == 0x5c000001);
  CHECK(e.ioctl_.object == 0x5c000002);

  r.bytes[0] = 0;  // could not be read before: what is there after is not taken for it
  put(r.exit, 4, 0x5c000001);
  put(r.exit, 12, 0x2080);
  keeping_emitter unread;
  CHECK(string_of(reported(r, unread).ioctl_.command_name) != "NV20_SUBDEVICE_0");
  CHECK(unread.events[0].ioctl_.parent != 0x5c000001);
}

TEST_CASE("kernel: a transfer, a node of UVM, and a call that the kernel began again") {
  keeping_emitter wrapped;
  transfer_record transfer = ioctl_of<transfer_record>(195u << 20, 0xc01046d3, CUTRACE_EBPF_TRANSFER);
  transfer.bytes[0] = transfer.bytes[1] = 16;
  put(transfer.entry, 0, 0x2a);
  put(transfer.entry, 4, 32);
  put(transfer.entry, 8, 0x1000);
  transfer.bytes[2] = transfer.bytes[3] = 32;
  put(transfer.inner_entry, 8, 0x20800102);
  put(transfer.inner_exit, 28, 0x56);
  const event inner = reported(transfer, wrapped);
  CHECK(string_of(inner.name) == "NV_ESC_RM_CONTROL");
  CHECK(inner.ioctl_.transferred);
  CHECK(string_of(inner.ioctl_.node) == "nvidia0");
  CHECK(string_of(inner.ioctl_.command_name) == "NV2080_CTRL_CMD_GPU_GET_INFO_V2");
  CHECK(string_of(inner.ioctl_.status_name) == "NV_ERR_NOT_SUPPORTED");

  keeping_emitter managed;
  ioctl_record uvm = ioctl_of(238u << 20, 37);
  uvm.result = -512;
  const event e = reported(uvm, managed);
  CHECK(string_of(e.name) == "UVM_REGISTER_GPU");
  CHECK(string_of(e.ioctl_.node) == "nvidia-uvm");
  CHECK(e.ioctl_.error == EINTR);
}

TEST_CASE("kernel: an error of the GPU") {
  keeping_emitter to;
  auto r = record<cutrace_ebpf_xid>(CUTRACE_EBPF_XID);
  r.head.process = r.head.thread = 0;
  r.at_ns = 7000;
  r.number = 79;
  std::strcpy(r.device, "0000:3b:00.0");
  std::strcpy(r.text, "GPU has fallen off the bus.");
  const event e = reported(r, to);
  CHECK(e.kind == cutrace::event_kind::system);
  CHECK(string_of(e.system.category) == "xid");
  CHECK(string_of(e.name) == "Xid 79");
  CHECK(e.thread_id == 0);
  CHECK(e.start_ns == 7005);
  CHECK(e.end_ns == 7005);
  CHECK(e.system.cpu == 3);
  REQUIRE(to.arguments.size() == 2);
  CHECK(to.arguments[0].string_value() == std::string("0000:3b:00.0"));
  CHECK(to.arguments[1].string_value() == std::string("GPU has fallen off the bus."));
  std::memset(r.text, 'x', sizeof(r.text));  // no terminating NUL
  std::memset(r.device, 'y', sizeof(r.device));
  keeping_emitter long_one;
  reported(r, long_one);
  CHECK(std::strlen(long_one.arguments[0].string_value()) == sizeof(r.device));
  CHECK(std::strlen(long_one.arguments[1].string_value()) == sizeof(r.text));
}

TEST_CASE("kernel: interrupts, waiting, faults and functions of modules") {
  auto r = record<cutrace_ebpf_span>(CUTRACE_EBPF_SPAN);
  r.begin_ns = 100;
  r.end_ns = 600;
  r.id = 9;
  {
    keeping_emitter to;
    r.what = CUTRACE_EBPF_INTERRUPT;
    r.value = 36;
    std::strcpy(r.text, "nvidia");
    const event e = reported(r, to);
    CHECK(string_of(e.system.category) == "irq");
    CHECK(string_of(e.name) == "nvidia");
    CHECK(e.duration_ns() == 500);
    REQUIRE(to.arguments.size() == 1);
    CHECK(to.arguments[0].value == 36);
  }
  const std::pair<__u64, const char*> states[] = {
      {1, "sleeping"},  {2, "uninterruptible"}, {0x102, "uninterruptible"},
      {0x402, "idle"},  {0x2001, "sleeping"},   {CUTRACE_EBPF_PREEMPTED, "preempted"},
      {0, "yielded"},   {8, "stopped"},         {0x20, "ended"},
      {0x8000, "other"}};
  for (const std::pair<__u64, const char*>& one : states) {
    CAPTURE(one.first);
    keeping_emitter to;
    r.what = CUTRACE_EBPF_SWITCHED_OUT;
    r.value = one.first;
    const event e = reported(r, to);
    CHECK(string_of(e.system.category) == "sched");
    CHECK(e.system.enclosing == 9);
    CHECK_FALSE(e.system.has_result);
    REQUIRE(to.arguments.size() == 1);
    CHECK(to.arguments[0].string_value() == std::string(one.second));
  }
  const std::pair<__s64, const char*> accesses[] = {{4, "read"}, {6, "write"}, {7, "write"}, {20, "execute"}};
  for (const std::pair<__s64, const char*>& one : accesses) {
    CAPTURE(one.first);
    keeping_emitter to;
    r.what = CUTRACE_EBPF_FAULT;
    r.value = 0x7f0000001000;
    r.result = one.first;
    reported(r, to);
    REQUIRE(to.arguments.size() == 2);
    CHECK(to.arguments[0].kind == argument_kind::pointer);
    CHECK(to.arguments[0].value == 0x7f0000001000);
    CHECK(to.arguments[1].string_value() == std::string(one.second));
  }
  {
    keeping_emitter to;
    r.what = CUTRACE_EBPF_MODULE;
    r.value = 1;
    r.result = -14;
    const event e = reported(r, to);
    CHECK(string_of(e.name) == "nvidia_poll");
    CHECK(e.system.has_result);
    CHECK(e.system.result == -14);
  }
  {
    keeping_emitter to;
    r.what = 99;
    kernel_events(view_580()).emit(start_of(r), r.head.kind, to, [](std::uint64_t ns) {
      return static_cast<std::int64_t>(ns);
    });
    CHECK(to.events.empty());
    CHECK(to.lost_total() == 1);
  }
}

TEST_CASE("kernel: functions of NVIDIA's modules, and of no other") {
  const std::vector<std::string> found = module_functions(
      "ffffffff81000000 T nvidia_poll\n"
      "ffffffffc0001000 t nvidia_unlocked_ioctl\t[nvidia]\n"
      "ffffffffc0002000 T nvidia_poll\t[nvidia_drm]\n"
      "ffffffffc0003000 d nvidia_mmap\t[nvidia]\n"
      "ffffffffc0004000 t uvm_unlocked_ioctl_entry\t[nvidia_uvm]\n"
      "ffffffffc0005000 t nvidia_unlocked_ioctl.cold\t[nvidia]\n"
      "garbage\n\n"
      "ffffffffc0006000 t nvidia_mmap\t[nvidia]");
  CHECK(found == std::vector<std::string>{"nvidia_unlocked_ioctl", "uvm_unlocked_ioctl_entry", "nvidia_mmap"});
  CHECK(module_functions("").empty());
}

}  // namespace kernel_events_test
