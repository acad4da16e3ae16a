// SPDX-License-Identifier: Apache-2.0
// What the tracer asks of a stopped thread: its memory and its descriptors. Every read is bounded, and what cannot be
// read is reported as nothing read.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace ioctls {

/// Bytes read: all, fewer where the rest is on a page that is not there, 0 for none. A block may end at the end of its
/// page, and the word may not hold its size.
inline std::size_t read_tracee(pid_t thread, std::uint64_t address, void* to, std::size_t bytes) noexcept {
  if (address == 0 || bytes == 0) return 0;
  const iovec local{to, bytes};
  const iovec remote{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes};
  const ssize_t n = ::process_vm_readv(thread, &local, 1, &remote, 1, 0);
  if (n >= 0) return static_cast<std::size_t>(n);
  constexpr std::uint64_t page = 4096;  // the smallest there is
  const std::size_t before = static_cast<std::size_t>(std::min<std::uint64_t>(page - address % page, bytes));
  if (before == bytes) return 0;
  const iovec short_local{to, before};
  const iovec short_remote{remote.iov_base, before};
  const ssize_t m = ::process_vm_readv(thread, &short_local, 1, &short_remote, 1, 0);
  return m > 0 ? static_cast<std::size_t>(m) : 0;
}

struct device_number {
  std::uint32_t major = 0, minor = 0;
  bool character_device = false;
  bool hidden = false;  ///< it could not be asked for
};

/// What a descriptor of a thread is, asked anew each time: the price is small beside that of a stop, and no close, dup
/// or shared table can make it wrong.
inline device_number device_of(pid_t thread, std::uint64_t descriptor) noexcept {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%ld/fd/%ld", static_cast<long>(thread),
                static_cast<long>(static_cast<int>(descriptor)));
  struct stat s {};
  device_number d;
  if (::stat(path, &s) != 0) {
    d.hidden = errno == EACCES || errno == EPERM;
    return d;
  }
  d.character_device = S_ISCHR(s.st_mode);
  d.major = major(s.st_rdev);
  d.minor = minor(s.st_rdev);
  return d;
}

/// A small file of /proc, cut to `size` - 1 bytes and ended by a zero; its size.
inline std::size_t read_proc(pid_t id, const char* name, char* to, std::size_t size) noexcept {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%ld/%s", static_cast<long>(id), name);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd >= 0 ? ::read(fd, to, size - 1) : -1;
  if (fd >= 0) ::close(fd);
  const std::size_t got = n > 0 ? static_cast<std::size_t>(n) : 0;
  to[got] = '\0';
  return got;
}

}  // namespace ioctls
CUTRACE_END_NAMESPACE
