// SPDX-License-Identifier: Apache-2.0
// Prints the backends that this program has, and counts its stages.
#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>

#if defined(OWN_FMT)
#include <fmt/core.h>
#endif

struct counting : cutrace::sink {
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events) stages += e.kind == cutrace::event_kind::stage;
  }
  int stages = 0;
};

#if defined(TWO_FILES)
void work_elsewhere();
#endif

int main() {
#if defined(OWN_FMT)
  if (fmt::vformat({}, {}) != "the user's own") return 2;
#endif
  cutrace::session_options unknown;
  unknown.backend = "unknown";
  try {
    cutrace::session refused(unknown);
    return 3;
  } catch (const cutrace::config_error& e) {
    std::printf("%s\n", e.what());
  }
  counting sink;
  cutrace::session_options options;
  options.backend = "none";
  options.sinks = "ascii";  // which formats numbers
  cutrace::session trace(options);
  trace.add_sink(sink);
  { CUTRACE_STAGE("in program", 1); }
#if defined(TWO_FILES)
  work_elsewhere();
#endif
  trace.stop();
  std::printf("%d stages\n", sink.stages);
  return sink.stages == 1 ? 0 : 1;
}
