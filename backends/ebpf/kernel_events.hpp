// SPDX-License-Identifier: Apache-2.0
// Records of kernel.bpf.c become events: ioctls are decoded as by --method ioctl, all others taken as they are. A pure
// function of bytes, on the collector's thread; strings are interned or literals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <cutrace/backend.hpp>
#include <cutrace/ioctl/device_numbers.hpp>
#include <cutrace/ioctl/ioctl_backend.hpp>
#include <string>
#include <vector>

#include "call_record.h"

namespace cutrace_ebpf {

/// What records leave out.
struct kernel_view {
  cutrace::ioctls::device_numbers devices;
  std::uint32_t branch = 0;            ///< of the driver, 0: not known
  std::vector<std::string> functions;  ///< of modules, by the number in records
};

class CUTRACE_LOCAL kernel_events {
 public:
  explicit kernel_events(kernel_view view) : view_(std::move(view)) {}

  static bool knows(std::uint16_t kind) noexcept {
    return kind == CUTRACE_EBPF_IOCTL || kind == CUTRACE_EBPF_TRANSFER || kind == CUTRACE_EBPF_SPAN ||
           kind == CUTRACE_EBPF_XID;
  }

  /// Emits the event of the whole record at `bytes`. `raw_ns`: CLOCK_MONOTONIC in ns -> raw frame (clock.hpp) in ns.
  template <class Clock>
  void emit(const unsigned char* bytes, std::uint16_t kind, cutrace::event_emitter& to, Clock raw_ns) const {
    if (kind == CUTRACE_EBPF_IOCTL || kind == CUTRACE_EBPF_TRANSFER) return to.emit(of_ioctl(bytes, kind, to, raw_ns));
    if (kind == CUTRACE_EBPF_SPAN) return emit_span(load<cutrace_ebpf_span>(bytes), to, raw_ns);
    if (kind == CUTRACE_EBPF_XID) return emit_xid(load<cutrace_ebpf_xid>(bytes), to, raw_ns);
  }

 private:
  template <class Record>
  static Record load(const unsigned char* bytes) noexcept {
    Record r;
    std::memcpy(static_cast<void*>(&r), bytes, sizeof(r));
    return r;
  }

  template <class Clock>
  cutrace::event of_ioctl(const unsigned char* bytes, std::uint16_t kind, cutrace::event_emitter& to,
                          Clock raw_ns) const {
    using cutrace::ioctls::trace_record;
    const auto r = load<cutrace_ebpf_ioctl>(bytes);
    static_assert(trace_record::block_bytes == CUTRACE_EBPF_BLOCK, "both ways keep the same bytes");
    trace_record t;
    std::memset(static_cast<void*>(&t), 0, sizeof(t));
    t.kind = trace_record::what::ioctl;
    t.process = r.head.process;
    t.thread = r.head.thread;
    t.request = r.request;
    t.begin_ns = r.begin_ns;
    t.end_ns = r.end_ns;
    t.result = r.result;
    t.status = r.status;
    t.status_read = r.status_read;
    const cutrace::ioctls::device_node node = view_.devices.find(r.device >> 20, r.device & 0xfffff);
    t.device = node.kind;
    std::memcpy(t.node, node.name, std::min(sizeof(t.node), sizeof(node.name)));
    const unsigned char* const block = bytes + sizeof(r);
    t.entry_bytes = r.bytes[0];
    t.exit_bytes = r.bytes[1];
    std::memcpy(t.entry, block, sizeof(t.entry));
    std::memcpy(t.exit, block + sizeof(t.entry), sizeof(t.exit));
    if (r.request == CUTRACE_EBPF_CONTROL && t.entry_bytes == 0) {
      t.entry_bytes = t.exit_bytes;
      std::memcpy(t.entry, t.exit, sizeof(t.entry));
    }
    if (kind == CUTRACE_EBPF_TRANSFER) {
      const unsigned char* const inner = block + sizeof(t.entry) + sizeof(t.exit);
      t.inner_entry_bytes = r.bytes[2];
      t.inner_exit_bytes = r.bytes[3];
      std::memcpy(t.inner_entry, inner, sizeof(t.inner_entry));
      std::memcpy(t.inner_exit, inner + sizeof(t.inner_entry), sizeof(t.inner_exit));
    }
    cutrace::event e = cutrace::ioctls::event_of(t, view_.branch, to, raw_ns);
    e.ioctl_.enclosing = r.id;
    return e;
  }

  template <std::size_t N>
  static cutrace::text literal(const char (&word)[N]) noexcept {
    return {word, N - 1};
  }
  template <std::size_t N>
  static cutrace::text text_in(const char (&room)[N], cutrace::event_emitter& to) {
    return to.intern(room, ::strnlen(room, N));
  }
  static cutrace::argument string_argument(cutrace::text name, const char* literal_or_interned) noexcept {
    return {name, cutrace::argument_kind::string, cutrace::argument::word_of(literal_or_interned)};
  }

  /// TASK_... of the kernel's sched.h; several bits may be set.
  static const char* state_name(std::uint64_t state) noexcept {
    if (state == CUTRACE_EBPF_PREEMPTED) return "preempted";
    if (state == 0) return "yielded";  // still ready to run, and it has asked for the switch itself
    if ((state & 0x400) != 0) return "idle";
    if ((state & 1) != 0) return "sleeping";
    if ((state & 2) != 0) return "uninterruptible";
    if ((state & 12) != 0) return "stopped";
    return (state & 0x70) != 0 ? "ended" : "other";
  }

  template <class Clock>
  void emit_span(const cutrace_ebpf_span& r, cutrace::event_emitter& to, Clock raw_ns) const {
    using cutrace::argument_kind;
    cutrace::event e = base(r.head, r.begin_ns, r.end_ns, raw_ns);
    cutrace::argument arguments[2];
    e.system.arguments = arguments;
    e.system.enclosing = r.id;
    switch (r.what) {
      case CUTRACE_EBPF_SWITCHED_OUT:
        e.system.category = literal("sched");
        e.name = literal("switched out");
        arguments[e.system.argument_count++] = string_argument(literal("state"), state_name(r.value));
        break;
      case CUTRACE_EBPF_INTERRUPT:
        e.system.category = literal("irq");
        e.name = text_in(r.text, to);
        arguments[e.system.argument_count++] = {literal("irq"), argument_kind::unsigned_integer, r.value};
        break;
      case CUTRACE_EBPF_FAULT: {
        e.system.category = literal("uvm");
        e.name = literal("page fault");
        arguments[e.system.argument_count++] = {literal("address"), argument_kind::pointer, r.value};
        const bool fetch = (r.result & 16) != 0, write = (r.result & 2) != 0;  // X86_PF_INSTR, X86_PF_WRITE
        arguments[e.system.argument_count++] = string_argument(literal("access"), fetch   ? "execute"
                                                                                  : write ? "write"
                                                                                          : "read");
        break;
      }
      case CUTRACE_EBPF_MODULE: {
        e.system.category = literal("module");
        const std::string name = r.value < view_.functions.size() ? view_.functions[r.value] : "unknown function";
        e.name = to.intern(name.data(), name.size());
        e.system.has_result = true;
        e.system.result = r.result;
        break;
      }
      default:
        return to.count_loss(cutrace::loss_cause::unknown_record, 1);
    }
    to.emit(e);
  }

  template <class Clock>
  void emit_xid(const cutrace_ebpf_xid& r, cutrace::event_emitter& to, Clock raw_ns) const {
    cutrace::event e = base(r.head, r.at_ns, r.at_ns, raw_ns);
    const std::string name = "Xid " + std::to_string(r.number);
    e.system.category = literal("xid");
    e.name = to.intern(name.data(), name.size());
    cutrace::argument arguments[2];
    arguments[0] = string_argument(literal("device"), text_in(r.device, to).data);
    arguments[1] = string_argument(literal("message"), text_in(r.text, to).data);
    e.system.arguments = arguments;
    e.system.argument_count = 2;
    to.emit(e);
  }

  template <class Clock>
  static cutrace::event base(const cutrace_ebpf_head& head, std::uint64_t begin_ns, std::uint64_t end_ns,
                             Clock raw_ns) {
    cutrace::event e;
    e.kind = cutrace::event_kind::system;
    e.thread_id = head.thread;
    e.start_ns = raw_ns(begin_ns);
    e.end_ns = raw_ns(end_ns);
    e.system.cpu = head.cpu;
    return e;
  }

  kernel_view view_;
};

}  // namespace cutrace_ebpf
