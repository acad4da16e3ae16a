// SPDX-License-Identifier: Apache-2.0
// Whose rights a command has: root's are needed to load BPF programs, and for nothing else. The program and all files
// are of the user who called. SECURITY.md says which installations are supported.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace cutrace_tool {

/// First of all, in every command. Where this file has capabilities: keeps those that probes need, only if `command`
/// has probes, and unsets the variables that name libraries and files, with a line on stderr. @throws usage_error where
/// this file is setuid or setgid
void check_own_rights(const std::string& command);

/// The user who called: under sudo the user who ran sudo, else the user of this process.
struct invoking_user {
  uid_t user = 0;
  gid_t group = 0;
  bool differs = false;  ///< from the user or group that this process runs as
};
/// @throws usage_error where SUDO_UID or SUDO_GID make no sense
invoking_user find_invoking_user();

/// From here on this process and its children run as `who`. Only this process keeps, where it had them, the
/// capabilities to load BPF programs and to trace processes. Does nothing where the process runs as `who` already.
/// @throws usage_error
void become(const invoking_user& who);

/// Before files are read of which one is neither root's nor the caller's: a process of root runs as the user who owns
/// the file from here on, to whom a harmful file gives no new rights; a line on stderr reports it. Does nothing in a
/// process of another user. @throws usage_error where files are of several others
void give_up_rights_to_read(const std::vector<std::string>& files);

/// Sets HOME, USER and LOGNAME in `variables` as `who` has them.
void set_variables(const invoking_user& who, std::map<std::string, std::string>& variables);

/// Drops the capabilities of this process where it is not root: from here on it can do only what its user can.
void drop_capabilities() noexcept;

/// 0 where this process's user may look into another process, as ptrace would decide; else an errno. What this process
/// has kept of root's rights does not count.
int trace_permission_error(pid_t process);

}  // namespace cutrace_tool
