// SPDX-License-Identifier: Apache-2.0
// The tracer: a process of its own that stops the traced program at its ioctls, notes those on devices of NVIDIA and
// lets it go on as if nothing had been. It lives as long as anything of the program does, whatever becomes of the
// command, because without a tracer every ioctl at which the program's filter stops would fail (stop_filter.hpp).
//
// One thread. Signals, stops from the terminal, exits and exec pass through unchanged (ptrace(2), PTRACE_SEIZE).
#pragma once

#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/clock.hpp>
#include <cutrace/ioctl/decode.hpp>
#include <cutrace/ioctl/device_numbers.hpp>
#include <cutrace/ioctl/record_ring.hpp>
#include <cutrace/ioctl/tracee_memory.hpp>
#include <unordered_map>
#include <unordered_set>

CUTRACE_BEGIN_NAMESPACE
namespace ioctls {

class tracer {
 public:
  /// `only`: the one process to note, 0 for all; the others pass through all the same.
  tracer(record_ring& ring, const device_numbers& devices, std::uint32_t branch, pid_t only)
      : ring_(ring), devices_(devices), branch_(branch), only_(only) {}

  /// Takes hold of a process of one thread, which is blocked or about to be. @returns 0 or errno
  int seize(pid_t process) noexcept {
    // Not EXITKILL: should this process be killed, the program loses its ioctls, but not its life.
    constexpr long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                             PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
    return ::ptrace(PTRACE_SEIZE, process, nullptr, options) == 0 ? 0 : errno;
  }

  /// Until nothing is left to trace.
  void run() {
    for (;;) {
      int status = 0;
      const pid_t thread = ::waitpid(-1, &status, __WALL);
      if (thread < 0 && errno == EINTR) continue;
      if (thread < 0) break;
      try {
        if (WIFSTOPPED(status)) {
          stopped(thread, status);
        } else {
          gone(thread);
          ended(thread);
        }
      } catch (...) {  // no memory: the program goes on, unrecorded
        if (WIFSTOPPED(status)) go_on(thread, PTRACE_CONT, 0);
      }
    }
    report_lost();
  }

 private:
  struct pending {
    trace_record record;
    std::uint64_t parameter;
    block_place block;
    bool inside = false;
  };
  struct traced {
    pid_t process = 0;  ///< 0: not asked yet
    char name[sizeof(trace_record::thread_name)] = "";
    std::uint64_t named_ns = 0;
    pending now;
  };

  static void go_on(pid_t thread, int request, int signal) noexcept {
    // It may have been killed meanwhile; then its end is what comes next.
    static_cast<void>(::ptrace(static_cast<__ptrace_request>(request), thread, nullptr,
                               reinterpret_cast<void*>(static_cast<std::intptr_t>(signal))));
  }

  void stopped(pid_t thread, int status) {
    const int signal = WSTOPSIG(status);
    switch (status >> 16) {
      case 0:
        if (signal == (SIGTRAP | 0x80)) {
          at_exit(thread);
          return go_on(thread, PTRACE_CONT, 0);
        }
        return go_on(thread, PTRACE_CONT, signal);
      case PTRACE_EVENT_SECCOMP:
        return go_on(thread, at_entry(thread) ? PTRACE_SYSCALL : PTRACE_CONT, 0);
      case PTRACE_EVENT_STOP:
        // A stop from the terminal or by SIGSTOP lasts until SIGCONT; anything else is the beginning of a new thread.
        if (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU)
          return go_on(thread, PTRACE_LISTEN, 0);
        return go_on(thread, PTRACE_CONT, 0);
      case PTRACE_EVENT_EXEC: {
        // Whichever thread executed it has the number of the process from here on.
        unsigned long before = 0;
        if (::ptrace(PTRACE_GETEVENTMSG, thread, nullptr, &before) == 0 && static_cast<pid_t>(before) != thread)
          gone(static_cast<pid_t>(before));
        gone(thread);
        return go_on(thread, PTRACE_CONT, 0);
      }
      default:
        return go_on(thread, PTRACE_CONT, 0);
    }
  }

  /// True when its exit is wanted, too.
  bool at_entry(pid_t thread) {
    __ptrace_syscall_info call{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, thread, reinterpret_cast<void*>(sizeof(call)), &call) <= 0 ||
        call.op != PTRACE_SYSCALL_INFO_SECCOMP)
      return false;
    const std::uint64_t begin_ns = clock::monotonic_ns();
    const device_number number = device_of(thread, call.seccomp.args[0]);
    if (number.hidden && (only_ == 0 || process_of(thread) == only_))
      ring_.hidden().fetch_add(1, std::memory_order_relaxed);
    if (!number.character_device) return false;
    const device_node node = devices_.find(number.major, number.minor);
    if (node.kind == ioctl_device::unknown) return false;
    traced& t = threads_[thread];
    if (t.process == 0) t.process = process_of(thread);
    if (only_ != 0 && t.process != only_) return false;

    pending& p = t.now;
    trace_record& r = p.record;
    std::memset(static_cast<void*>(&r), 0, sizeof(r));
    r.kind = trace_record::what::ioctl;
    r.process = static_cast<std::uint32_t>(t.process);
    r.thread = static_cast<std::uint32_t>(thread);
    r.request = static_cast<std::uint32_t>(call.seccomp.args[1]);
    r.begin_ns = begin_ns;
    r.device = node.kind;
    std::memcpy(r.node, node.name, std::min(sizeof(r.node), sizeof(node.name)));
    r.node[sizeof(r.node) - 1] = '\0';
    p.parameter = call.seccomp.args[2];
    r.entry_bytes = read_block(thread, p.parameter, bytes_of(r.device, r.request), r.entry);
    p.block = own_block(r.device, r.request, p.parameter, {r.entry, r.entry_bytes});
    if (is_transfer(r.device, r.request) && p.block.address != p.parameter)
      r.inner_entry_bytes = read_block(thread, p.block.address, p.block.bytes, r.inner_entry);
    p.inside = true;
    return true;
  }

  void at_exit(pid_t thread) {
    const auto found = threads_.find(thread);
    if (found == threads_.end() || !found->second.now.inside) return;
    pending& p = found->second.now;
    trace_record& r = p.record;
    r.end_ns = clock::monotonic_ns();
    p.inside = false;
    __ptrace_syscall_info call{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, thread, reinterpret_cast<void*>(sizeof(call)), &call) <= 0 ||
        call.op != PTRACE_SYSCALL_INFO_EXIT) {
      r.kind = trace_record::what::unfinished;
      return note(r);
    }
    r.result = call.exit.rval;
    r.exit_bytes = read_block(thread, p.parameter, r.entry_bytes, r.exit);
    if (r.inner_entry_bytes != 0)
      r.inner_exit_bytes = read_block(thread, p.block.address, r.inner_entry_bytes, r.inner_exit);
    const std::uint16_t place = status_place(r.device, p.block, branch_);
    if (place != none && place + 4u > trace_record::block_bytes)
      r.status_read = read_tracee(thread, p.block.address + place, &r.status, sizeof(r.status)) == sizeof(r.status);
    name_thread(thread, found->second, r.end_ns);
    std::memcpy(r.thread_name, found->second.name, sizeof(r.thread_name));
    note(r);
  }

  /// Read again only from time to time: a thread gets its name after its start, and each read costs as much as a stop.
  static void name_thread(pid_t thread, traced& t, std::uint64_t at_ns) noexcept {
    constexpr std::uint64_t period_ns = 250000000;
    if (t.named_ns != 0 && at_ns - t.named_ns < period_ns) return;
    t.named_ns = at_ns;
    char text[32];
    const std::size_t size = read_proc(thread, "comm", text, sizeof(text));
    const std::size_t line = static_cast<std::size_t>(std::find(text, text + size, '\n') - text);
    std::memset(t.name, 0, sizeof(t.name));
    std::memcpy(t.name, text, std::min(line, sizeof(t.name) - 1));
  }

  /// A thread that is no more, or begins anew in another program.
  void gone(pid_t thread) {
    const auto found = threads_.find(thread);
    if (found == threads_.end()) return;
    if (found->second.now.inside) {
      trace_record& r = found->second.now.record;
      r.kind = trace_record::what::unfinished;
      r.end_ns = clock::monotonic_ns();
      note(r);
    }
    threads_.erase(found);
  }

  /// A thread has ended; where it was a process's main thread, which goes last, so has the process. Where there is no
  /// room to say so, the process's trace stays open until the end of the run, and may count what was lost.
  void ended(pid_t thread) {
    if (noted_.count(thread) == 0) return;
    report_lost();
    if (ring_.lost().load(std::memory_order_relaxed) != 0) return;
    const auto process = static_cast<std::uint32_t>(thread);
    if (ring_.push(process_record(trace_record::what::ended, process))) noted_.erase(thread);
  }

  void note(const trace_record& r) {
    noted_.insert(static_cast<pid_t>(r.process));
    report_lost();
    if (!ring_.push(r)) {
      ring_.lost_of().store(r.process, std::memory_order_relaxed);
      ring_.lost().fetch_add(1, std::memory_order_relaxed);
    }
  }
  /// As soon as there is room again. All lost records are counted in the trace of the last one's process.
  void report_lost() {
    const std::uint64_t lost = ring_.lost().load(std::memory_order_relaxed);
    if (lost == 0) return;
    // Taken before the push: the command, which may be at its end, must not count them twice.
    ring_.lost().store(0, std::memory_order_relaxed);
    if (!ring_.push(lost_record(ring_.lost_of().load(std::memory_order_relaxed), lost)))
      ring_.lost().store(lost, std::memory_order_relaxed);
  }

  std::uint32_t bytes_of(ioctl_device device, std::uint32_t request) const noexcept {
    if (device != ioctl_device::uvm && device != ioctl_device::uvm_tools) return size_of(request);
    const uvm_command* c = find_uvm(request, branch_);
    return c != nullptr ? c->bytes : trace_record::block_bytes;
  }
  static std::uint8_t read_block(pid_t thread, std::uint64_t address, std::uint32_t bytes, std::uint8_t* to) noexcept {
    return static_cast<std::uint8_t>(
        read_tracee(thread, address, to, std::min<std::size_t>(bytes, trace_record::block_bytes)));
  }

  static pid_t process_of(pid_t thread) noexcept {
    char text[1024];
    read_proc(thread, "status", text, sizeof(text));
    const char* at = std::strstr(text, "\nTgid:");
    return at != nullptr ? static_cast<pid_t>(std::strtol(at + 6, nullptr, 10)) : thread;
  }

  record_ring& ring_;
  const device_numbers& devices_;
  std::uint32_t branch_;
  pid_t only_;
  std::unordered_map<pid_t, traced> threads_;  ///< that have made an ioctl of interest
  std::unordered_set<pid_t> noted_;            ///< processes that have records
};

}  // namespace ioctls
CUTRACE_END_NAMESPACE
