// SPDX-License-Identifier: Apache-2.0
// Writing bytes to a descriptor completely, without ever raising SIGPIPE in the host program.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cutrace/config.hpp>
#include <string>
#include <system_error>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

enum class descriptor_kind : unsigned char { other, pipe, socket };

inline descriptor_kind kind_of(int fd) noexcept {
  struct stat s {};
  if (::fstat(fd, &s) != 0) return descriptor_kind::other;
  return S_ISSOCK(s.st_mode)   ? descriptor_kind::socket
         : S_ISFIFO(s.st_mode) ? descriptor_kind::pipe
                               : descriptor_kind::other;
}

/// "No space left on device (errno 28)"
inline std::string errno_text(int value) {
  return std::generic_category().message(value) + " (errno " + std::to_string(value) + ")";
}

/// Keeps SIGPIPE from this thread while it lives, and takes away the one that its writes caused. A SIGPIPE that was
/// pending before stays pending: it is the program's own.
class sigpipe_guard {
 public:
  sigpipe_guard() noexcept {
    sigset_t pending;
    ::sigemptyset(&only_);
    ::sigaddset(&only_, SIGPIPE);
    ::sigemptyset(&pending);
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    blocked_ = ::pthread_sigmask(SIG_BLOCK, &only_, &before_) == 0;
  }
  ~sigpipe_guard() {
    if (!blocked_) return;
    if (!was_pending_) {
      const timespec no_wait{0, 0};
      while (::sigtimedwait(&only_, nullptr, &no_wait) < 0 && errno == EINTR) {
      }
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  sigpipe_guard(const sigpipe_guard&) = delete;
  sigpipe_guard& operator=(const sigpipe_guard&) = delete;

 private:
  sigset_t only_;
  sigset_t before_;
  bool was_pending_ = false;
  bool blocked_ = false;
};

/// Waits on a descriptor that the program made non-blocking (terminals often are). @returns 0 or errno
inline int wait_writable(int fd) noexcept {
  pollfd p{fd, POLLOUT, 0};
  return ::poll(&p, 1, -1) < 0 && errno != EINTR ? errno : 0;
}

template <class Put>
inline int write_loop(int fd, const char* data, std::size_t size, Put put) noexcept {
  while (size != 0) {
    const ssize_t n = put(data, size);
    if (n > 0) {
      data += n;
      size -= static_cast<std::size_t>(n);
    } else if (n == 0) {
      return EIO;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      const int failure = wait_writable(fd);
      if (failure != 0) return failure;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

/// All `size` bytes, whatever the system calls make of it. @returns 0, or the errno of the call that failed
inline int write_all(int fd, descriptor_kind kind, const char* data, std::size_t size) noexcept {
  if (kind == descriptor_kind::socket) {
    return write_loop(fd, data, size, [fd](const char* p, std::size_t n) { return ::send(fd, p, n, MSG_NOSIGNAL); });
  }
  const auto put = [fd](const char* p, std::size_t n) { return ::write(fd, p, n); };
  if (kind != descriptor_kind::pipe) return write_loop(fd, data, size, put);
  const sigpipe_guard guard;
  const int failure = write_loop(fd, data, size, put);
  return failure;
}

}  // namespace detail
CUTRACE_END_NAMESPACE
