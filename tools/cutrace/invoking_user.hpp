// SPDX-License-Identifier: Apache-2.0
// Whose rights a command has: root's are needed to load BPF programs, and for nothing else. The program and all files
// are of the user who called. SECURITY.md says which installations are supported.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace cutrace_tool {

/// First of all, in every command: with file capabilities keeps those that probes need, and only where `command` has
/// probes, and forgets the variables that name libraries and files, with a line. @throws usage_error where this file is
/// setuid or setgid
void check_own_rights(const std::string& command);

/// Who called: of sudo the user behind it, else the user of this process.
struct invoking_user {
  uid_t user = 0;
  gid_t group = 0;
  bool differs = false;  ///< from the user or group that this process runs as
};
/// @throws usage_error where SUDO_UID or SUDO_GID make no sense
invoking_user find_invoking_user();

/// From here on this process and what it starts are that user's. This process alone keeps, of what it had, the
/// capabilities to load BPF programs and to trace processes. Nothing where it is that user already.
/// @throws usage_error
void become(const invoking_user& who);

/// Before files are read of which one is neither root's nor the caller's: root becomes its owner for good, who can do
/// with a file of theirs only what they could anyway, and says so. Nothing for who is not root. @throws usage_error
/// where files are of several others
void give_up_rights_to_read(const std::vector<std::string>& files);

/// HOME, USER and LOGNAME as that user has them.
void set_variables(const invoking_user& who, std::map<std::string, std::string>& variables);

/// Of this process, where it is not root: it can do only what its user can.
void drop_capabilities() noexcept;

/// 0 where this process's user may look into another process, as ptrace would decide; else an errno. What this process
/// has kept of root's rights does not count.
int trace_permission_error(pid_t process);

}  // namespace cutrace_tool
