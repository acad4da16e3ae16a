// SPDX-License-Identifier: Apache-2.0
// Files that somebody else wrote are parsed by a child process without privileges: it runs as user nobody where cutrace
// is root, has no capabilities, and only writes to a pipe. A malicious file that takes it over gains nothing.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace cutrace_ebpf {

/// What was found, as bytes that are simple to check: a letter, two numbers, a text with its NUL, again and again.
class found_facts {
 public:
  void add(char kind, std::uint64_t a, std::uint64_t b, const std::string& text) {
    bytes_ += kind;
    bytes_.append(reinterpret_cast<const char*>(&a), sizeof(a));
    bytes_.append(reinterpret_cast<const char*>(&b), sizeof(b));
    bytes_.append(text.c_str(), std::strlen(text.c_str()) + 1);
  }
  /// Calls `use(kind, a, b, text)`. What is not whole is left out.
  template <class Use>
  void for_each(Use use) const {
    constexpr std::size_t head = 1 + 2 * sizeof(std::uint64_t);
    for (std::size_t at = 0; bytes_.size() - at > head;) {
      std::uint64_t a = 0, b = 0;
      std::memcpy(&a, bytes_.data() + at + 1, sizeof(a));
      std::memcpy(&b, bytes_.data() + at + 1 + sizeof(a), sizeof(b));
      const std::size_t end = bytes_.find('\0', at + head);
      if (end == std::string::npos) return;
      use(bytes_[at], a, b, bytes_.data() + at + head);
      at = end + 1;
    }
  }

  std::string& bytes() noexcept { return bytes_; }

 private:
  std::string bytes_;
};

/// Drops this process's user and groups (if it runs as root), capabilities, and its right to write files, for good.
/// False where some of that failed.
inline bool give_up_rights() noexcept {
  constexpr unsigned nobody = 65534;
  const rlimit none{0, 0};
  static_cast<void>(::setrlimit(RLIMIT_FSIZE, &none));
  if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setresgid(nobody, nobody, nobody) != 0 ||
                           ::setresuid(nobody, nobody, nobody) != 0))
    return false;
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct no_capabilities[2] = {};
  return ::syscall(SYS_capset, &head, no_capabilities) == 0 && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/// Runs `parse(found_facts&)` in a child without privileges and returns what it added. Files that are open already can
/// be read there. @throws std::runtime_error with parse's message, or where the child failed
template <class Parse>
found_facts parse_without_rights(const std::string& path, Parse parse) {
  constexpr std::size_t most = std::size_t{256} << 20;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(path + ": " + std::strerror(errno));
  const pid_t child = ::fork();
  if (child == 0) {
    std::string all(1, '+');  // '-': what follows says why not
    try {
      if (!give_up_rights())
        throw std::runtime_error(path + ": not read, since the rights of this process could not be dropped before");
      found_facts found;
      parse(found);
      all += found.bytes();
    } catch (const std::exception& e) {
      all = std::string("-") + e.what();
    }
    for (std::size_t at = 0; at < all.size();) {
      const ssize_t n = ::write(ends[1], all.data() + at, all.size() - at);
      if (n <= 0) ::_exit(1);
      at += static_cast<std::size_t>(n);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string all;
  char block[65536];
  for (ssize_t n = 0; child > 0 && all.size() < most && (n = ::read(ends[0], block, sizeof(block))) != 0;) {
    if (n > 0)
      all.append(block, static_cast<std::size_t>(n));
    else if (errno != EINTR)
      break;
  }
  ::close(ends[0]);
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child < 0 || status != 0 || all.empty() || all.size() >= most)
    throw std::runtime_error(path + ": cannot be read: the process that parses it ended early");
  if (all[0] == '-') throw std::runtime_error(all.substr(1));
  found_facts found;
  found.bytes() = all.substr(1);
  return found;
}

}  // namespace cutrace_ebpf
