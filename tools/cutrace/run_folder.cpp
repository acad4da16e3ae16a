// SPDX-License-Identifier: Apache-2.0
#include "cutrace/run_folder.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace cutrace_tool {

unsigned terminal_columns() {
  winsize size{};
  if (::isatty(STDERR_FILENO) != 1 || ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
  return std::min<unsigned>(std::max<unsigned>(size.ws_col, 80), 200);
}

std::vector<process_report> read_at_end(run_status& status) {
  for (int patience = 0;; ++patience) {
    std::vector<process_report> all = status.read();
    const bool busy = std::any_of(all.begin(), all.end(), [](const auto& p) { return p.open() && p.alive; });
    if (!busy || patience == 50) return all;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void remove_empty_files(const std::vector<process_report>& processes) {
  for (const process_report& p : processes)
    for (const sink_report& s : p.sinks)
      if (!p.alive && !s.finished && s.bytes == 0 && !s.path.empty() && s.path[0] == '/')
        ::unlink((s.path + ".tmp").c_str());
}

}  // namespace cutrace_tool
