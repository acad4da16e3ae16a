// SPDX-License-Identifier: Apache-2.0
// A command that writes files and is interrupted leaves none of them half written.
#pragma once

namespace cutrace_tool {

/// From here on SIGINT, SIGTERM and SIGHUP remove the regular files that are open for writing, and end the process as
/// they would anyhow. Files that the process was started with, such as a redirected standard output, stay. A signal
/// that is ignored stays ignored. Call once, before the first file is opened.
void remove_unfinished_files_when_interrupted();

}  // namespace cutrace_tool
