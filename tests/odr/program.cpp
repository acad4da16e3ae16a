// SPDX-License-Identifier: Apache-2.0
// Runs every part once under a session, and checks that exactly the enabled ones left stages in the trace.
#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>
#include <map>
#include <string>

void run_enabled_17(unsigned long long);
void run_enabled_20(unsigned long long);
void run_disabled_17(unsigned long long);
void run_disabled_20(unsigned long long);
unsigned long span_size_enabled_17();
unsigned long span_size_enabled_20();
unsigned long span_size_disabled_17();

namespace {

struct stage_names : cutrace::sink {
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events)
      if (e.kind == cutrace::event_kind::stage) ++count[std::string(e.name.data, e.name.size)];
  }
  std::map<std::string, int> count;
};

}  // namespace

int main() {
  stage_names names;
  {
    cutrace::session trace;
    trace.add_sink(names);
    run_enabled_17(1);
    run_disabled_17(2);
    run_enabled_20(3);
    run_disabled_20(4);
    trace.stop();
  }
  const std::map<std::string, int> expected = {{"enabled_17", 1},          {"inner of enabled_17", 1},
                                               {"span of enabled_17", 1},  {"enabled_20", 1},
                                               {"inner of enabled_20", 1}, {"span of enabled_20", 1}};
  for (const auto& [name, n] : names.count) std::printf("%s: %d\n", name.c_str(), n);
  if (names.count != expected) {
    std::puts("FAILED: expected the three stages of each enabled part, once each, and nothing of the disabled ones");
    return 1;
  }
  if (span_size_enabled_17() != span_size_enabled_20() || span_size_disabled_17() == span_size_enabled_17()) {
    std::puts("FAILED: sizes of span do not fit the modes");
    return 1;
  }
  return 0;
}
