// SPDX-License-Identifier: Apache-2.0
// A sink that analyses the trace that is read into it; `cutrace report`, `why` and `diff` present the results.
#pragma once

#include <cstdint>
#include <cutrace/sink.hpp>
#include <memory>

#include "report/trace_analysis.hpp"

namespace cutrace_tool {

class analysis_sink : public cutrace::sink {
 public:
  void open(const cutrace::trace_info& info) override {
    // A file without clocks does not say when its trace began.
    const bool reported = info.start.monotonic_ns != 0;
    all_ = std::make_unique<cutrace::analysis::trace_analysis>(reported ? info.start.trace_ns
                                                                        : cutrace::analysis::trace_log::first_event);
  }
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events) all_->add(e);
  }

 protected:
  /// Once, in `close`. @param names nullptr: without the inference report; no other analysis needs the names
  cutrace::analysis::trace_results finish(const cutrace::trace_summary& end,
                                          const cutrace::analysis::inference_names* names = nullptr) {
    return all_->finish(end.stop.monotonic_ns != 0 ? end.stop.trace_ns : INT64_MIN, {}, names);
  }
  const cutrace::analysis::trace_analysis& all() const noexcept { return *all_; }
  /// Frees the analysis and its memory.
  void forget() noexcept { all_.reset(); }

 private:
  std::unique_ptr<cutrace::analysis::trace_analysis> all_;
};

}  // namespace cutrace_tool
