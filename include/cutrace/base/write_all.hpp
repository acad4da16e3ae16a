// SPDX-License-Identifier: Apache-2.0
// Writing bytes to a descriptor completely, without ever raising SIGPIPE or SIGXFSZ in the host program, and the only
// way in which cutrace writes to its stderr. For messages: texts of errno, and the word nearest to a mistyped one.
#pragma once

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cutrace/config.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

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

/// While this object lives, the calling thread cannot be cancelled: a call in which it waits must not be left half way.
class no_cancel {
 public:
  no_cancel() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~no_cancel() { pthread_setcancelstate(before_, &before_); }
  no_cancel(const no_cancel&) = delete;
  no_cancel& operator=(const no_cancel&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

/// Keeps SIGPIPE and SIGXFSZ (a file at the limit of its size) from the calling thread while this object lives, and
/// removes those that the thread's writes caused. A signal that was pending before stays pending: it is the program's
/// own.
class write_signal_guard {
 public:
  write_signal_guard() noexcept {
    sigset_t both, pending;
    ::sigemptyset(&both);
    ::sigemptyset(&caused_);
    ::sigemptyset(&pending);
    ::sigpending(&pending);
    for (const int s : {SIGPIPE, SIGXFSZ}) {
      ::sigaddset(&both, s);
      if (::sigismember(&pending, s) != 1) ::sigaddset(&caused_, s);
    }
    blocked_ = ::pthread_sigmask(SIG_BLOCK, &both, &before_) == 0;
  }
  ~write_signal_guard() {
    if (!blocked_) return;
    const int saved = errno;
    const timespec no_wait{0, 0};
    while (::sigtimedwait(&caused_, nullptr, &no_wait) > 0 || errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = saved;
  }
  write_signal_guard(const write_signal_guard&) = delete;
  write_signal_guard& operator=(const write_signal_guard&) = delete;

 private:
  sigset_t caused_;  ///< signals that came from this thread's writes, if pending at the end
  sigset_t before_;
  bool blocked_ = false;
};

/// Waits on a descriptor that the program made non-blocking (terminals often are). @returns 0 or errno
inline int wait_writable(int fd) noexcept {
  pollfd p{fd, POLLOUT, 0};
  return ::poll(&p, 1, -1) < 0 && errno != EINTR ? errno : 0;
}

template <class Put>
inline int write_loop(int fd, const char* data, std::size_t size, std::size_t& done, Put put) noexcept {
  while (done != size) {
    const ssize_t n = put(data + done, size - done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
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

/// Writes all `size` bytes, also where a system call takes only a part of them. `done`: bytes that were written.
/// @returns 0, or the errno of the call that failed
inline int write_all(int fd, descriptor_kind kind, const char* data, std::size_t size, std::size_t& done) noexcept {
  done = 0;
  if (kind == descriptor_kind::socket) {
    return write_loop(fd, data, size, done,
                      [fd](const char* p, std::size_t n) { return ::send(fd, p, n, MSG_NOSIGNAL); });
  }
  const auto put = [fd](const char* p, std::size_t n) { return ::write(fd, p, n); };
  rlimit most{RLIM_INFINITY, RLIM_INFINITY};
  const bool raises =
      kind == descriptor_kind::pipe || (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY);
  if (!raises) return write_loop(fd, data, size, done, put);
  const write_signal_guard guard;
  const int failure = write_loop(fd, data, size, done, put);
  return failure;
}

/// Replaces by '?' what would steer a terminal: control characters (C0 but for line breaks, DEL, C1 in UTF-8 and as
/// single bytes). Messages quote names that others chose.
CUTRACE_NOINLINE inline void mask_controls(char* text, std::size_t size) noexcept {
  unsigned more = 0;  // bytes that the character still has
  for (std::size_t i = 0; i < size; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool continues = (c & 0xc0u) == 0x80 && more != 0;
    if (continues)
      --more;
    else
      more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc2 ? 1 : 0;
    const auto next = static_cast<unsigned char>(c == 0xc2 && i + 1 < size ? text[i + 1] : 0);
    if (next >= 0x80 && next < 0xa0) text[i++] = '?', text[i] = '?', more = 0;
    if ((c < 0x20 && c != '\n') || c == 0x7f || (!continues && c >= 0x80 && c < 0xa0)) text[i] = '?';
  }
}

/// Writes to the program's stderr until it takes no more; control characters of `text` are masked in place. stdio would
/// let SIGPIPE through where nobody reads, and give the stream an orientation, after which the program's wide output
/// fails. Any thread.
CUTRACE_NOINLINE inline void write_error_text(char* text, std::size_t size) noexcept {
  const int saved = errno;
  mask_controls(text, size);
  const write_signal_guard guard;
  const no_cancel whole;  // write(2) would be a place to be cancelled at
  for (std::size_t done = 0; done < size;) {
    const ssize_t written = ::write(STDERR_FILENO, text + done, size - done);
    if (written > 0)
      done += static_cast<std::size_t>(written);
    else if (written == 0 || errno != EINTR)
      break;
  }
  errno = saved;
}

/// Writes one line as write_error_text does; `format` is printf's, without the newline.
__attribute__((format(printf, 1, 2))) CUTRACE_NOINLINE inline void write_error_line(const char* format, ...) noexcept {
  char line[2048];
  std::va_list values;
  va_start(values, format);
  const int n = std::vsnprintf(line, sizeof(line), format, values);
  va_end(values);
  std::size_t size = n > 0 ? static_cast<std::size_t>(n) : 0;
  if (size >= sizeof(line)) size = sizeof(line) - 1;
  line[size++] = '\n';  // in the place of the end's zero
  write_error_text(line, size);
}

/// What somebody who typed `word` may have meant, for "did you mean": the one of `known` that few changes of letters
/// lead to, or whose beginning it is. Empty where none is near.
CUTRACE_NOINLINE inline std::string_view nearest_word(std::string_view word,
                                                      const std::vector<std::string_view>& known) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::string_view best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 4) + 1;
  for (const std::string_view one : known) {
    // Rows of the edit distance, where two letters that changed places count once.
    std::vector<std::size_t> before, last(one.size() + 1), now(one.size() + 1);
    for (std::size_t k = 0; k <= one.size(); ++k) last[k] = k;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      now[0] = i;
      for (std::size_t k = 1; k <= one.size(); ++k) {
        const char a = lower(word[i - 1]), b = lower(one[k - 1]);
        now[k] = std::min({last[k] + 1, now[k - 1] + 1, last[k - 1] + (a != b)});
        if (i > 1 && k > 1 && a == lower(one[k - 2]) && b == lower(word[i - 2]))
          now[k] = std::min(now[k], before[k - 2] + 1);
      }
      before = last;
      last.swap(now);
    }
    std::size_t distance = last[one.size()];
    if (word.size() >= 3 && one.substr(0, word.size()) == word) distance = 1;
    if (distance >= least) continue;
    least = distance;
    best = one;
  }
  return best;
}

}  // namespace detail
CUTRACE_END_NAMESPACE
