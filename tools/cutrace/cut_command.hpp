// SPDX-License-Identifier: Apache-2.0
// `cutrace cut`: a part of a trace file, by time, stage, request or device.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_cut(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
