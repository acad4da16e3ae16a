// SPDX-License-Identifier: Apache-2.0
// What can be seen of a program before it runs: why the injected library may not reach it.
#pragma once

#include <string>
#include <vector>

namespace cutrace_tool {

/// The file that execvp would run, as PATH says; `name` itself where there is none.
std::string find_program(const std::string& name);

/// What gives it other rights than those of this user ("setuid"), nullptr: nothing does.
const char* other_rights(const std::string& file);

/// One line that says why this program cannot be traced (static, 32 bits, another processor or C library, other rights
/// than the user's); empty for others.
std::string why_out_of_reach(const std::string& file);

/// Why it could not be executed, and what helps. `error` is the errno.
std::string why_not_started(const std::string& program, int error);

/// What the trace files of a run are called when no --name is given: the program's own name. Behind python, bash and sh
/// it is that of the script, without its extension, or that of the module of -m.
std::string name_for_files(const std::vector<std::string>& program);

}  // namespace cutrace_tool
