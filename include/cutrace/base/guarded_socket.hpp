// SPDX-License-Identifier: Apache-2.0
// Descriptors that the tracer opens in the program that it traces: sockets, and what a forked child must not keep.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cutrace/config.hpp>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// A socket of the tracer in the traced program, which may fork, or close all descriptors that it finds and use their
/// numbers again: `is_ours` must be checked before each use.
class guarded_socket {
 public:
  guarded_socket() = default;
  /// Takes `fd`, which may be -1; moves it away from the numbers of the standard streams.
  explicit guarded_socket(int fd) noexcept : fd_(fd) {
    if (fd_ >= 0 && fd_ <= STDERR_FILENO) {
      fd_ = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
      ::close(fd);
    }
    struct stat own {};
    if (fd_ >= 0 && ::fstat(fd_, &own) == 0) {
      device_ = own.st_dev;
      inode_ = own.st_ino;
    }
  }
  guarded_socket(guarded_socket&& from) noexcept { swap(from); }
  guarded_socket& operator=(guarded_socket&& from) noexcept {
    guarded_socket old(std::move(*this));
    swap(from);
    return *this;
  }
  ~guarded_socket() { close(); }

  int fd() const noexcept { return fd_; }
  bool is_open() const noexcept { return fd_ >= 0; }
  bool is_ours() const noexcept {
    struct stat now {};
    return fd_ >= 0 && ::fstat(fd_, &now) == 0 && now.st_dev == device_ && now.st_ino == inode_;
  }
  void close() noexcept {
    close_in_child();
    fd_ = -1;
  }
  void close_in_child() const noexcept {
    if (is_ours()) ::close(fd_);
  }

 private:
  void swap(guarded_socket& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(device_, other.device_);
    std::swap(inode_, other.inode_);
  }

  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// Problem: a forked child inherits descriptors. Nobody accepts at its listening sockets, and the address stays taken
/// for as long as the child lives, though the traced program has ended; so do the locks of files. Solution: the child
/// closes them first of all, by `close_in_child` of whoever has them.
template <class Holder>
class CUTRACE_LOCAL closed_after_fork {
 public:
  /// @returns false where no room is left; the descriptor then stays open in children.
  static bool add(const Holder* h) noexcept {
    static const int registered = ::pthread_atfork(nullptr, nullptr, &in_child);
    static_cast<void>(registered);
    for (std::atomic<const Holder*>& place : places()) {
      const Holder* free = nullptr;
      if (place.compare_exchange_strong(free, h)) return true;
    }
    return false;
  }
  static void remove(const Holder* h) noexcept {
    for (std::atomic<const Holder*>& place : places()) {
      const Holder* found = h;
      if (place.compare_exchange_strong(found, nullptr)) return;
    }
  }

 private:
  using place_list = std::atomic<const Holder*>[16];
  static place_list& places() noexcept {
    static place_list all{};
    return all;
  }
  static void in_child() noexcept {
    for (std::atomic<const Holder*>& place : places()) {
      const Holder* h = place.exchange(nullptr);
      if (h != nullptr) h->close_in_child();
    }
  }
};

}  // namespace detail
CUTRACE_END_NAMESPACE
