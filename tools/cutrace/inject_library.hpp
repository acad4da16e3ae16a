// SPDX-License-Identifier: Apache-2.0
// Where libcutrace_inject.so is: beside the command in a build tree, in the library folder of an installation.
#pragma once

#include <string>

namespace cutrace_tool {

/// Its absolute path. CUTRACE_INJECT_LIBRARY overrides the search. @throws usage_error that names what was looked for
std::string find_inject_library();

}  // namespace cutrace_tool
