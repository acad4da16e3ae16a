// SPDX-License-Identifier: Apache-2.0
// Where the libraries are that get into traced programs: beside the command in a build tree, in the library folder of
// an installation.
#pragma once

#include <string>

namespace cutrace_tool {

/// Absolute path of libcutrace_inject.so. CUTRACE_INJECT_LIBRARY overrides the search. @throws usage_error that names
/// what was looked for
std::string find_inject_library();
/// As find_inject_library, of libcutrace_preload.so and CUTRACE_PRELOAD_LIBRARY.
std::string find_preload_library();
/// As find_inject_library, of libcutrace_watch.so and CUTRACE_WATCH_LIBRARY.
std::string find_watch_library();

}  // namespace cutrace_tool
