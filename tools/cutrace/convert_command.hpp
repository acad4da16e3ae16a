// SPDX-License-Identifier: Apache-2.0
// `cutrace convert`: a trace file in another format.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_convert(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
