// SPDX-License-Identifier: Apache-2.0
// One session, stages of the executable and of its library, counted by a sink of the program's own.
#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>

void work_in_library(unsigned long long request);

struct counting : cutrace::sink {
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events) stages += e.kind == cutrace::event_kind::stage;
  }
  int stages = 0;
};

int main() {
  counting sink;
  cutrace::session trace;
  trace.add_sink(sink);
  {
    CUTRACE_STAGE("in executable", 1);
    work_in_library(2);
  }
  trace.stop();
  std::printf("%d stages\n", sink.stages);
  return sink.stages == 2 ? 0 : 1;
}
