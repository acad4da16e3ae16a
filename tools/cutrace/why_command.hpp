// SPDX-License-Identifier: Apache-2.0
// `cutrace why`: one request of a trace against the others, and why it took as long as it did.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_why(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
