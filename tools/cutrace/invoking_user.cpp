// SPDX-License-Identifier: Apache-2.0
#include "cutrace/invoking_user.hpp"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/base/process_info.hpp>
#include <vector>

#include "cutrace/exit_status.hpp"
#include "cutrace/say.hpp"

namespace cutrace_tool {

namespace {

// Of linux/capability.h, for headers before Linux 5.8.
constexpr unsigned cap_sys_ptrace = 19, cap_perfmon = 38, cap_bpf = 39;

struct capability_sets {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};

  bool read() noexcept { return ::syscall(SYS_capget, &head, data) == 0; }
  bool write() noexcept { return ::syscall(SYS_capset, &head, data) == 0; }
  /// Drops all capabilities but those in `mask`.
  void keep(std::uint64_t mask) noexcept {
    for (unsigned i = 0; i < 2; ++i) {
      data[i].permitted &= static_cast<std::uint32_t>(mask >> (32 * i));
      data[i].effective = data[i].permitted;
      data[i].inheritable = 0;
    }
  }
};

bool read_number(const char* name, std::uint32_t& to) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return false;
  char* end = nullptr;
  errno = 0;
  const unsigned long n = std::strtoul(text, &end, 10);
  if (errno != 0 || *end != '\0' || n >= 0xffffffffu || *text < '0' || *text > '9')
    throw usage_error(std::string(name) + "=\"" + text + "\" is no number of a user or group");
  to = static_cast<std::uint32_t>(n);
  return true;
}

constexpr std::uint64_t kept_capabilities =
    std::uint64_t{1} << cap_bpf | std::uint64_t{1} << cap_perfmon | std::uint64_t{1} << cap_sys_ptrace;

void keep_capabilities(std::uint64_t mask) {
  capability_sets sets;
  if (!sets.read()) throw usage_error(std::string("capget: ") + std::strerror(errno));
  sets.keep(mask);
  if (!sets.write()) throw usage_error(std::string("capset: ") + std::strerror(errno));
}

}  // namespace

void check_own_rights(const std::string& command) {
  if (::getuid() != ::geteuid() || ::getgid() != ::getegid())
    throw usage_error(
        "this file is setuid or setgid, which is not supported: whoever may start it would have its owner's rights. "
        "Take that away (chmod ug-s), and run sudo cutrace where a method needs root; or give a copy that only a "
        "restricted group may start (mode 0750) the file capabilities cap_bpf,cap_perfmon,cap_sys_ptrace");
  if (!cutrace::detail::has_more_rights_than_caller()) return;
  const bool has_probes = command == "run" || command == "attach" || command == "bpf" || command == "doctor";
  keep_capabilities(has_probes ? kept_capabilities : 0);
  std::string forgotten;
  for (const char* name : {"CUTRACE_PRELOAD_LIBRARY", "CUTRACE_INJECT_LIBRARY", "CUTRACE_WATCH_LIBRARY",
                           "CUTRACE_CUPTI_LIBRARY", "CUTRACE_BPF_ROOT"}) {
    if (std::getenv(name) == nullptr) continue;
    forgotten += (forgotten.empty() ? "" : ", ") + std::string(name);
    ::unsetenv(name);
  }
  if (!forgotten.empty())
    say("cutrace: ignored, since this cutrace has file capabilities that its caller lacks: " + forgotten);
  // The other variables let this user do nothing that they could not do anyway.
  cutrace::detail::trusts_environment() = true;
}

invoking_user find_invoking_user() {
  invoking_user who;
  who.user = ::getuid();
  who.group = ::getgid();
  std::uint32_t user = 0, group = 0;
  // Only root may name somebody else: sudo says whom it works for.
  if (who.user == 0 && read_number("SUDO_UID", user) && read_number("SUDO_GID", group)) {
    who.user = user;
    who.group = group;
  }
  who.differs = who.user != ::geteuid() || who.group != ::getegid();
  return who;
}

void become(const invoking_user& who) {
  if (!who.differs) return;
  const auto check = [](bool done, const char* what) {
    if (!done)
      throw usage_error(std::string("cannot become the user who called: ") + what + ": " + std::strerror(errno));
  };
  std::vector<gid_t> groups{who.group};
  if (const passwd* known = ::getpwuid(who.user)) {
    int count = 256;
    groups.resize(256);
    if (::getgrouplist(known->pw_name, who.group, groups.data(), &count) < 0) count = 256;
    groups.resize(static_cast<std::size_t>(count));
  }
  // Root's groups are dropped, too: each one kept is a privilege kept. Any other user may not set groups.
  if (::geteuid() == 0) check(::setgroups(groups.size(), groups.data()) == 0, "setgroups");
  check(::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0, "prctl");
  check(::setresgid(who.group, who.group, who.group) == 0, "setresgid");
  check(::setresuid(who.user, who.user, who.user) == 0, "setresuid");
  check(::prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) == 0, "prctl");
  if (who.user == 0) return;
  keep_capabilities(kept_capabilities);
}

void give_up_rights_to_read(const std::vector<std::string>& files) {
  if (::geteuid() != 0) return;
  const invoking_user caller = find_invoking_user();
  invoking_user owner;
  for (const std::string& file : files) {
    struct stat s {};
    if ((file == "-" ? ::fstat(STDIN_FILENO, &s) : ::stat(file.c_str(), &s)) != 0) continue;  // reading it will say so
    if (s.st_uid == 0 || s.st_uid == caller.user || (!S_ISREG(s.st_mode) && !S_ISFIFO(s.st_mode))) continue;
    if (owner.differs && owner.user != s.st_uid)
      throw usage_error(
          "the files belong to several users, and root should read none of them with root's rights; copy them, or "
          "read them as a user who may");
    owner.user = s.st_uid;
    owner.group = s.st_gid;
    owner.differs = true;
  }
  if (!owner.differs) return;
  const std::string who = "user " + std::to_string(owner.user);
  try {
    become(owner);
  } catch (const usage_error& e) {
    throw usage_error("a file of " + who + " is not read with root's rights, and " + e.what() +
                      "; read a copy that root owns");
  }
  drop_capabilities();
  say("cutrace: root's rights are given up for those of " + who +
      ", who owns the file that is read: output must be writable for that user");
}

void set_variables(const invoking_user& who, std::map<std::string, std::string>& variables) {
  const passwd* const known = who.differs ? ::getpwuid(who.user) : nullptr;
  if (known == nullptr) return;
  variables["HOME"] = known->pw_dir;
  variables["USER"] = variables["LOGNAME"] = known->pw_name;
}

void drop_capabilities() noexcept {
  if (::geteuid() == 0) return;
  capability_sets sets;
  if (!sets.read()) return;
  sets.keep(0);
  static_cast<void>(sets.write());
}

int trace_permission_error(pid_t process) {
  const pid_t child = ::fork();
  if (child == 0) {
    drop_capabilities();
    // Nothing is mapped at address 0: where reading is allowed, it fails with EFAULT.
    char byte = 0;
    iovec here{&byte, 1}, there{nullptr, 1};
    errno = 0;
    const bool read = ::process_vm_readv(process, &here, 1, &there, 1, 0) >= 0;
    ::_exit(read || errno == EFAULT ? 0 : errno);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return EAGAIN;
  return WEXITSTATUS(status);
}

}  // namespace cutrace_tool
