// SPDX-License-Identifier: Apache-2.0
// The child's side: the process that is measured, traced as its configuration says. Besides its measurements it prints
// one line with the records that the tracer saw.
#pragma once

#include <sched.h>

#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <memory>

#include "configurations.hpp"
#include "counted.hpp"
#include "driver.hpp"
#include "raw_cupti.hpp"

namespace bench {

inline raw_cupti::form form_of(tracer t) {
  return t == tracer::records ? raw_cupti::form::records
         : t == tracer::spans ? raw_cupti::form::spans
                              : raw_cupti::form::twin;
}

class CUTRACE_LOCAL traced {
 public:
  /// Begins to trace; before CUDA starts. Ends the program with a line when that cannot be done.
  explicit traced(const configuration& c) : who_(c.who) {
    set_environment(c);
    whole_graphs_ = std::strstr(c.environment, "CUTRACE_GRAPHS=graph") != nullptr;
    if (is_raw() && !raw_.start(form_of(who_))) std::exit(2);
    if (who_ != tracer::cutrace) return;
    if (!raw_.prepare()) std::exit(2);
    cutrace::session_options options;
    if (std::getenv("CUTRACE_SINKS") == nullptr) options.sinks = "null";
    trace_.reset(new cutrace::session(options));
  }

  bool staged() const { return who_ == tracer::cutrace; }
  bool whole_graphs() const { return whole_graphs_; }

  /// Stops, and prints how many kernels and whole graphs were seen and how many there were.
  void finish(unsigned long long expected) {
    counted n;
    n.expected = expected;
    if (is_raw()) {
      n.add(raw_cupti::finish());
    } else if (trace_ != nullptr) {
      trace_->stop();
      n.add(trace_->stats());
    } else {
      return;
    }
    n.print();
  }

 private:
  bool is_raw() const { return who_ == tracer::records || who_ == tracer::twin || who_ == tracer::spans; }

  tracer who_;
  bool whole_graphs_ = false;
  raw_cupti raw_;
  std::unique_ptr<cutrace::session> trace_;
};

/// This thread stays on the processor where it is; the others, tracers' among them, have been started and go where they
/// like. Processes whose thread wanders differ from one another by more than tracers do.
inline void stay_on_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  const int here = sched_getcpu();
  if (here < 0) return;
  CPU_SET(static_cast<unsigned>(here), &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) std::perror("sched_setaffinity");
}

/// The child's whole run, and its exit status. `loops` measures, and returns how many records there must be.
template <class Loops>
int measure_in_child(const std::string& name, Loops loops) {
  const configuration* c = find_configuration(name);
  if (c == nullptr) {
    std::fprintf(stderr, "there is no configuration %s\n", name.c_str());
    return 2;
  }
  traced tracing(*c);
  driver gpu;
  gpu.start();
  stay_on_processor();
  tracing.finish(loops(gpu, tracing));
  return 0;
}

}  // namespace bench
