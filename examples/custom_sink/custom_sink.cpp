// SPDX-License-Identifier: Apache-2.0
// A sink of one's own: a class with one function that must be written. This one counts events by kind, and prints the
// counts when the session ends. Sinks from CUTRACE_SINKS may run beside it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <cutrace/names.hpp>  // to_string(event_kind)
#include <cutrace/sink.hpp>   // sink and event; not a part of cutrace.hpp, which every file of a program includes

namespace {

/// After `open`, only the session's collector thread calls it, so it needs no lock.
class counting_sink final : public cutrace::sink {
 public:
  const char* name() const noexcept override { return "counting"; }

  void open(const cutrace::trace_info& info) override { std::printf("tracing %s\n", info.process_name); }

  /// Events come in batches. Texts in them live until the session ends, lists of requests and arguments only until
  /// this function returns: a sink that needs such a list later must copy it.
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events) ++counts_[static_cast<std::size_t>(e.kind)];
  }

  /// The last call. Every output should include the number of lost events.
  void close(const cutrace::trace_summary& summary) override {
    for (std::size_t i = 0; i < counts_.size(); ++i)
      if (counts_[i] != 0)
        std::printf("%-12s %llu\n", cutrace::to_string(static_cast<cutrace::event_kind>(i)),
                    static_cast<unsigned long long>(counts_[i]));
    std::printf("%-12s %llu\n", "lost", static_cast<unsigned long long>(summary.totals.lost_total()));
  }

 private:
  std::array<std::uint64_t, cutrace::event_kind_count> counts_{};
};

}  // namespace

int main() {
  cutrace::session trace;
  trace.emplace_sink<counting_sink>();  // the session owns it; add_sink takes one that the program owns

  for (int request = 1; request <= 3; ++request) {
    CUTRACE_STAGE("request", request);
    for (int step = 0; step < 4; ++step) {
      CUTRACE_STAGE("step");
      CUTRACE_COUNT("steps", 1);
    }
    CUTRACE_MARK("answered", request);
  }
}  // here the session ends: everything recorded reaches the sink, then close is called
