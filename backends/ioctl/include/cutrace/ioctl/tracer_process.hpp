// SPDX-License-Identifier: Apache-2.0
// The tracer's process, as the command sees it: forked first, it takes hold of the program before that is executed, and
// outlives the command where the program does.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cutrace/ioctl/device_numbers.hpp>
#include <cutrace/ioctl/record_ring.hpp>
#include <cutrace/ioctl/stop_filter.hpp>
#include <cutrace/ioctl/tracer.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace ioctls {

class tracer_process {
 public:
  tracer_process() = default;
  tracer_process(const tracer_process&) = delete;
  tracer_process& operator=(const tracer_process&) = delete;
  /// A tracer that holds nothing ends; one that holds a program stays with it.
  ~tracer_process() {
    for (const int fd : {orders_, answers_, gate_[0], gate_[1]})
      if (fd >= 0) ::close(fd);
  }

  /// To be called before this process has threads and before it forks the program. `branch`: of NVIDIA's driver, 0: not
  /// known. @returns 0 or errno
  int start(record_ring& ring, const device_numbers& devices, std::uint32_t branch) noexcept {
    int orders[2] = {-1, -1}, answers[2] = {-1, -1};
    if (::pipe2(orders, O_CLOEXEC) != 0 || ::pipe2(answers, O_CLOEXEC) != 0 || ::pipe2(gate_, O_CLOEXEC) != 0)
      return errno;
    process_ = ::fork();
    if (process_ == 0) live(orders[0], answers[1], ring, devices, branch);
    const int why = process_ < 0 ? errno : 0;
    ::close(orders[0]);
    ::close(answers[1]);
    orders_ = orders[1];
    answers_ = answers[0];
    return why;
  }

  /// In the program's process, after fork: waits until it is held, then puts the filter on. Async-signal-safe.
  /// @returns 0 or errno
  int enter() const noexcept {
#if defined(PR_SET_PTRACER)
    ::prctl(PR_SET_PTRACER, process_, 0, 0, 0);  // Yama: the tracer is no ancestor of the program
#endif
    ::close(gate_[1]);
    char go = 0;
    ssize_t n;
    while ((n = ::read(gate_[0], &go, 1)) < 0 && errno == EINTR) {
    }
    return n == 1 ? install_stop_filter() : ECANCELED;
  }

  /// In the command: the tracer takes hold of `program`, which is in `enter`. `alone`: what it starts is let through
  /// without being noted. @returns 0 or errno
  int hold(pid_t program, bool alone) noexcept {
    const order o{program, alone ? program : 0};
    int answer = EIO;
    // Yama answers EPERM until the program has called PR_SET_PTRACER in `enter`.
    for (int patience = 0; patience < 200; ++patience) {
      if (!write_all(orders_, &o, sizeof(o)) || !read_all(answers_, &answer, sizeof(answer))) return EIO;
      if (answer != EPERM) break;
      ::usleep(5000);
    }
    if (answer == 0 && !write_all(gate_[1], "g", 1)) answer = errno;
    ::close(gate_[1]);
    gate_[1] = -1;
    return answer;
  }

  pid_t id() const noexcept { return process_; }

 private:
  struct order {
    pid_t program, only;
  };

  static bool write_all(int fd, const void* data, std::size_t size) noexcept {
    ssize_t n;
    while ((n = ::write(fd, data, size)) < 0 && errno == EINTR) {
    }
    return n == static_cast<ssize_t>(size);  // small enough to be whole
  }
  static bool read_all(int fd, void* data, std::size_t size) noexcept {
    ssize_t n;
    while ((n = ::read(fd, data, size)) < 0 && errno == EINTR) {
    }
    return n == static_cast<ssize_t>(size);
  }

  [[noreturn]] static void live(int orders, int answers, record_ring& ring, const device_numbers& devices,
                                std::uint32_t branch) noexcept {
    // Out of the terminal's and the group's reach: what ends the command or the program's group must not end this.
    ::setsid();
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    ::prctl(PR_SET_NAME, "cutrace-ioctl", 0, 0, 0);
    // A pipe that the command's caller reads to its end must not wait for this.
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && nothing >= 0; ++fd)
      if (fd != orders && fd != answers) ::dup2(nothing, fd);
    const int low = orders < answers ? orders : answers, high = orders < answers ? answers : orders;
    close_between(3, low);
    close_between(low + 1, high);
    close_between(high + 1, 1 << 16);
    static_cast<void>(!::chdir("/"));

    bool held = false;
    order o{};
    while (!held && read_all(orders, &o, sizeof(o))) {
      tracer t(ring, devices, branch, o.only);
      const int why = t.seize(o.program);
      if (!write_all(answers, &why, sizeof(why))) break;
      held = why == 0;
      if (held) t.run();
    }
    ::_exit(0);
  }
  static void close_between(int first, int last) noexcept {
    if (first >= last) return;
#if defined(SYS_close_range)
    if (::syscall(SYS_close_range, first, last - 1, 0) == 0) return;
#endif
    for (int fd = first; fd < last && fd < 4096; ++fd) ::close(fd);
  }

  pid_t process_ = -1;
  int orders_ = -1, answers_ = -1;
  int gate_[2] = {-1, -1};
};

}  // namespace ioctls
CUTRACE_END_NAMESPACE
