// SPDX-License-Identifier: Apache-2.0
// Continuous batching: a worker has slots, each with its own part of the cache. Before each decode step, waiting
// requests move into free slots; after it, finished ones leave. No request waits for another one to end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <utility>
#include <vector>

#include "counters.hpp"
#include "options.hpp"
#include "request_queue.hpp"
#include "stream.hpp"
#include "tokenizer.hpp"
#include "transformer.hpp"

namespace server {

class worker {
 public:
  worker(gpu& g, const model& m, device_pointer<float> weights, const options& o)
      : options_(o),
        stream_(g),
        transformer_(g, stream_, m, weights, static_cast<int>(o.max_batch),
                     static_cast<int>(std::max(o.max_batch, o.prompt_tokens)), o.naive),
        slots_(o.max_batch),
        graphs_(o.max_batch + 1) {
    stream_.synchronize();
  }

  /// Serves until the queue is closed and empty.
  void serve(request_queue& queue) {
    for (;;) {
      if (!admit(queue)) return;
      if (busy() > 0) decode();
    }
  }

  std::vector<request_pointer> take_finished() { return std::move(finished_); }
  const gpu_work& gpu_counts() const { return stream_.counted(); }
  const service_counts& counts() const { return counts_; }

 private:
  std::size_t busy() const {
    return static_cast<std::size_t>(
        std::count_if(slots_.begin(), slots_.end(), [](const request_pointer& r) { return r != nullptr; }));
  }

  /// Fills free slots. Waits only when there is nothing to do; false when there never will be.
  bool admit(request_queue& queue) {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot] != nullptr) continue;
      const bool idle = busy() == 0;
      request_pointer r = queue.take(idle);
      if (r == nullptr) return !idle;
      r->queue_wait.end();
      slots_[slot] = std::move(r);
      prefill(slot);
      if (is_done(*slots_[slot])) respond(slot);
    }
    return true;
  }

  void prefill(std::size_t slot) {
    request& r = *slots_[slot];
    CUTRACE_STAGE("prefill", r.id);  // every copy and kernel below belongs to this request's prefill
    transformer_.clear_slot(static_cast<int>(slot));
    for (std::size_t i = 0; i < r.prompt.size(); ++i) set_row(i, r.prompt[i], i, slot);
    transformer_.step(static_cast<int>(r.prompt.size()), true);
    stream_.synchronize();
    r.output.push_back(transformer_.chosen[0]);
    CUTRACE_MARK("first_token", r.id);
    CUTRACE_COUNT("tokens", 1);
    ++counts_.prefills;
    ++counts_.requests;
    ++counts_.new_tokens;
    counts_.prompt_tokens += r.prompt.size();
  }

  /// One step for all requests in the slots.
  void decode() {
    std::vector<std::size_t> rows;   // slot of each row
    std::vector<std::uint64_t> ids;  // request of each row
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const request* r = slots_[slot].get();
      if (r == nullptr) continue;
      set_row(rows.size(), r->output.back(), r->prompt.size() + r->output.size() - 1, slot);
      rows.push_back(slot);
      ids.push_back(r->id);
    }
    {
      CUTRACE_STAGE_BATCH("decode", ids.data(), ids.size());  // the step is shared by these requests
      run_step(rows.size());
      stream_.synchronize();
      CUTRACE_MARK("token");  // one of each request of the batch
    }
    CUTRACE_COUNT("tokens", rows.size());
    ++counts_.decode_steps;
    counts_.new_tokens += rows.size();
    for (std::size_t row = 0; row < rows.size(); ++row) {
      request& r = *slots_[rows[row]];
      r.output.push_back(transformer_.chosen[row]);
      if (is_done(r)) respond(rows[row]);
    }
  }

  /// Directly, or as a graph that is captured when a batch size comes up for the first time. The graph holds the
  /// addresses of the host arrays, not their contents, so one graph serves all steps of its size.
  void run_step(std::size_t rows) {
    if (!options_.graphs) return transformer_.step(static_cast<int>(rows), false);
    graph& g = graphs_[rows];
    if (!g) {
      stream_.begin_capture();
      transformer_.step(static_cast<int>(rows), false);
      g = stream_.end_capture();
    }
    stream_.launch(g);
  }

  void respond(std::size_t slot) {
    const request& r = *slots_[slot];
    CUTRACE_STAGE("respond", r.id);
    const std::string text = to_text(r.output);
    CUTRACE_MARK("request_end", r.id);  // its costs can be reported without waiting for more of it
    if (!options_.quiet)
      std::printf("request %llu: \"%s\" -> tokens %s\n", static_cast<unsigned long long>(r.id), r.text.c_str(),
                  text.c_str());
    finished_.push_back(std::move(slots_[slot]));
  }

  static bool is_done(const request& r) { return r.output.size() >= r.new_tokens; }

  void set_row(std::size_t row, int token, std::size_t position, std::size_t slot) {
    transformer_.tokens[row] = token;
    transformer_.positions[row] = static_cast<int>(position);
    transformer_.slots_of_rows[row] = static_cast<int>(slot);
  }

  const options& options_;
  stream stream_;
  transformer transformer_;
  std::vector<request_pointer> slots_;  ///< null: free
  std::vector<graph> graphs_;           ///< by number of rows
  std::vector<request_pointer> finished_;
  service_counts counts_;
};

}  // namespace server
