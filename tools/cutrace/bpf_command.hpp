// SPDX-License-Identifier: Apache-2.0
// `cutrace bpf`: which functions and tracepoints can be probed here, and a script for bpftrace that does the same.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_bpf(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
