// SPDX-License-Identifier: Apache-2.0
// The seccomp filter of a traced program: it stops at ioctl alone, and of those not at the ones of terminals, sockets
// and file systems, which no device of NVIDIA has; everything else runs at full speed. It stays for the life of the
// program and of what that starts.
//
// Once the tracer is gone, each ioctl at which the filter would stop fails with ENOSYS (seccomp(2)). So it stops at as
// few command words as it can.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace ioctls {

#if defined(__x86_64__)
inline constexpr std::uint32_t own_architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
inline constexpr std::uint32_t own_architecture = AUDIT_ARCH_AARCH64;
#else
inline constexpr std::uint32_t own_architecture = 0;
#endif

/// Types of command words (bits 8 to 15) that go through: 'T' terminals and FIONBIO, 0x89 sockets, 0x94 and 'f' file
/// systems. NVIDIA's are 'F', 'm' and UVM's plain numbers, whose type is 0.
inline constexpr std::uint32_t passed_types[] = {'T', 0x89, 0x94, 'f'};

/// Installs it in this process. Called between fork and exec: no allocation. With CAP_SYS_ADMIN the program
/// may still gain rights by exec; without, setuid programs run without theirs, as under any tracer.
/// @returns 0 or errno
inline int install_stop_filter() noexcept {
  constexpr std::uint32_t at_number = offsetof(seccomp_data, nr);
  constexpr std::uint32_t at_architecture = offsetof(seccomp_data, arch);
  constexpr std::uint32_t at_word = offsetof(seccomp_data, args[1]);  // its lower half: both are little-endian
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at_architecture),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own_architecture, 0, 9),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at_number),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 7),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at_word),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xff00),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, passed_types[0] << 8, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, passed_types[1] << 8, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, passed_types[2] << 8, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, passed_types[3] << 8, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
  // Root's children shall stay able to gain rights; everybody else must give that up for a filter.
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0) return 0;
  if (errno != EACCES) return errno;
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : errno;
}

}  // namespace ioctls
CUTRACE_END_NAMESPACE
