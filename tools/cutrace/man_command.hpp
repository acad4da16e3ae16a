// SPDX-License-Identifier: Apache-2.0
// `cutrace man`: manual pages made of the commands' own help. The build installs them.
#pragma once

namespace CLI {
class App;
}

namespace cutrace_tool {

void add_man(CLI::App& app, int& exit_status);

}  // namespace cutrace_tool
