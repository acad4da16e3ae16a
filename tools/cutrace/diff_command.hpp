// SPDX-License-Identifier: Apache-2.0
// `cutrace diff`: what became slower or faster between traces.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_diff(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
