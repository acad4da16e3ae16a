// SPDX-License-Identifier: Apache-2.0
// `cutrace bpf`: which functions and tracepoints can be probed here, or a bpftrace script in place of `--method ebpf`.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_bpf(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
