// SPDX-License-Identifier: Apache-2.0
// Its session counts the stages of program and plug-ins; those that open a session of their own join it.
#include <dlfcn.h>

#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>

struct counting : cutrace::sink {
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events) stages += e.kind == cutrace::event_kind::stage;
  }
  int stages = 0;
};

/// Whether the session of the plug-in took part in the trace; -1 where it cannot be loaded.
int run(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return -1;
  }
  return reinterpret_cast<int (*)()>(dlsym(library, "run_plugin"))();
}

int main() {
  counting sink;
  cutrace::session trace;
  trace.add_sink(sink);
  { CUTRACE_STAGE("in program", 1); }
  const int same = run(SAME), other = run(OTHER);
  trace.stop();
  std::printf("%d stages; sessions that joined: %d of the same version, %d of another\n", sink.stages, same, other);
  return sink.stages == 3 && same == 1 && other == 0 ? 0 : 1;
}
