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

std::vector<process_report> read_at_end(run_status& status, std::vector<started_process>* others) {
  for (int patience = 0;; ++patience) {
    std::vector<process_report> all = status.read();
    if (others != nullptr) {
      // A process may fork and end while the list of all processes is read, and its child then stands nowhere: a daemon
      // does so once, after the program. So one look that finds nobody is not enough.
      for (int looks = patience == 0 ? 3 : patience % 5 == 0 ? 1 : 0; looks > 0; --looks) {
        *others = status.find_others(all);
        if (!others->empty()) break;
      }
      if (others->empty()) all = status.read();  // what ended before it was looked for has left its status
    }
    const bool busy = (others != nullptr && !others->empty()) ||
                      std::any_of(all.begin(), all.end(), [](const auto& p) { return p.runs(); });
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
