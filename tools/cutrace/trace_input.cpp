// SPDX-License-Identifier: Apache-2.0
#include "cutrace/trace_input.hpp"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "cutrace/exit_status.hpp"
#include "cutrace/invoking_user.hpp"
#include "cutrace/memory_limit.hpp"
#include "cutrace/say.hpp"

namespace cutrace_tool {

namespace {

/// Ten times a second at most, on a terminal only.
class progress_line {
 public:
  explicit progress_line(bool wanted) : wanted_(wanted && ::isatty(STDERR_FILENO) != 0) {}
  ~progress_line() {
    if (shown_) std::fputs("\r\x1b[K", stderr);
  }
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  void show(const cutrace_reading::progress& p) {
    const auto now = std::chrono::steady_clock::now();
    if (!wanted_ || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    const double mib = static_cast<double>(p.bytes) / (1 << 20);
    if (p.all_bytes != 0) {
      std::fprintf(stderr, "\rcutrace: read %3.0f %%, %.1f million events\x1b[K",
                   100.0 * static_cast<double>(p.bytes) / static_cast<double>(p.all_bytes),
                   static_cast<double>(p.events) / 1e6);
    } else {
      std::fprintf(stderr, "\rcutrace: read %.0f MiB, %.1f million events\x1b[K", mib,
                   static_cast<double>(p.events) / 1e6);
    }
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  bool wanted_, shown_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace

void print_complaints(const cutrace_reading::outcome& o) {
  constexpr std::size_t shown = 10;
  std::size_t n = 0;
  for (const cutrace_reading::complaint& c : o.problems.kinds()) {
    if (n++ == shown) break;
    say("cutrace: " + sentence_of(c));
  }
  const std::size_t kinds = o.problems.kinds().size();
  if (kinds > shown) std::fprintf(stderr, "cutrace: and %zu more kinds of complaints\n", kinds - shown);
  if (o.problems.total() != 0)
    std::fprintf(stderr, "cutrace: %llu events were read, with %llu complaints\n",
                 static_cast<unsigned long long>(o.events), static_cast<unsigned long long>(o.problems.total()));
}

void prepare_to_read(const std::vector<std::string>& files) {
  give_up_rights_to_read(files);
  // A name that is mistyped shows before the files in front of it are read.
  for (const std::string& file : files)
    if (file != "-" && ::access(file.c_str(), R_OK) != 0)
      throw usage_error("cannot read \"" + file + "\": " + std::strerror(errno));
  limit_memory();
}

cutrace_reading::outcome read_trace(const std::vector<std::string>& files, cutrace::sink& to, bool quiet) {
  cutrace_reading::outcome o;
  try {
    progress_line line(!quiet);
    cutrace_reading::options options;
    options.on_progress = [&line](const cutrace_reading::progress& p) { line.show(p); };
    o = cutrace_reading::read(files, to, options);
  } catch (const cutrace_reading::reading_error& e) {
    throw usage_error(e.what());
  }
  print_complaints(o);
  return o;
}

int status_of(const cutrace_reading::outcome& o) { return o.problems.total() != 0 ? exit_read_in_part : 0; }

}  // namespace cutrace_tool
