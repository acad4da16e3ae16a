// SPDX-License-Identifier: Apache-2.0
// The metrics as one page of Prometheus's text format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/names.hpp>
#include <cutrace/sinks/prometheus/metrics.hpp>
#include <cutrace/sinks/prometheus/text.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

class renderer {
 public:
  explicit renderer(const metrics& m) : m_(m) {
    for (std::size_t d = 0; d < m_.devices.size(); ++d)
      if (m_.devices[d] != nullptr) device_[d] = m_.device_labels.label(d);
  }

  /// @param start_realtime_ns when the trace began; `running`: it has not ended
  CUTRACE_NOINLINE std::string render(std::uint64_t start_realtime_ns, bool running) {
    stages();
    work();
    out_.family("cutrace_time_to_first_token_seconds", "histogram",
                "From the beginning of a request to its first token.");
    out_.sample({}, m_.requests.first_token);
    out_.family("cutrace_inter_token_seconds", "histogram", "Between two tokens of a request.");
    out_.sample({}, m_.requests.between_tokens);
    devices();
    one("cutrace_requests_total", "Requests that stages or marks named.", m_.requests.requests);
    one("cutrace_tokens_total", "Tokens that marks reported; a mark of several requests is a token of each.",
        m_.requests.tokens);
    out_.family("cutrace_calls_total", "counter", "CUDA calls of the host that were recorded.");
    for (std::size_t c = 0; c < m_.calls.size(); ++c)
      out_.sample({{"category", analysis::name_of(static_cast<analysis::category>(c))}}, m_.calls[c]);
    one("cutrace_failed_calls_total", "CUDA calls that returned an error.", m_.failed_calls);
    user();
    quality();
    out_.family("cutrace_trace_start_time_seconds", "gauge", "When the trace began, in seconds since 1970.");
    out_.sample_seconds({}, start_realtime_ns);
    out_.family("cutrace_trace_running", "gauge", "1 while the program is traced, 0 once the trace has ended.");
    out_.sample({}, running ? 1 : 0);
    return out_.take();
  }

 private:
  void one(const char* name, const char* help, std::uint64_t value) {
    out_.family(name, "counter", help);
    out_.sample({}, value);
  }

  template <class Each>
  void each_stage(Each&& each) {
    for (std::size_t s = 0; s < m_.stages.size(); ++s)
      if (m_.stages[s] != nullptr) each(m_.stage_labels[s], *m_.stages[s]);
  }
  template <class Each>
  void each_work(Each&& each) {
    each_stage([&](const std::string& stage, const stage_numbers& n) {
      for (std::size_t d = 0; d < n.on.size(); ++d)
        if (n.on[d] != nullptr) each(stage, device_[d], *n.on[d]);
    });
  }
  template <class Each>
  void each_device(Each&& each) {
    for (std::size_t d = 0; d < m_.devices.size(); ++d)
      if (m_.devices[d] != nullptr) each(device_[d], *m_.devices[d]);
  }

  void stages() {
    out_.family("cutrace_stage_host_seconds", "histogram", "Runs of a stage, begin to end on the host.");
    each_stage([this](const std::string& stage, const stage_numbers& n) {
      if (!n.host.empty()) out_.sample({{"stage", stage}}, n.host);
    });
    out_.family("cutrace_stage_gpu_idle_seconds", "histogram",
                "Time inside a run of a stage in which no GPU was busy.");
    each_stage([this](const std::string& stage, const stage_numbers& n) {
      if (!n.gpu_idle.empty()) out_.sample({{"stage", stage}}, n.gpu_idle);
    });
  }

  void work() {
    out_.family("cutrace_stage_gpu_busy_seconds", "histogram",
                "Time in which a GPU worked for a run of a stage, overlapping work counted once.");
    each_work([this](const std::string& stage, const std::string& device, const stage_work& w) {
      if (!w.gpu_busy.empty()) out_.sample({{"stage", stage}, {"device", device}}, w.gpu_busy);
    });
    out_.family("cutrace_launch_delay_seconds", "histogram",
                "From the begin of a call to the begin of its work on the GPU.");
    each_work([this](const std::string& stage, const std::string& device, const stage_work& w) {
      if (!w.launch_delay.empty()) out_.sample({{"stage", stage}, {"device", device}}, w.launch_delay);
    });
    out_.family("cutrace_kernels_total", "counter", "Kernels that ran.");
    each_work([this](const std::string& stage, const std::string& device, const stage_work& w) {
      if (w.kernels != 0) out_.sample({{"stage", stage}, {"device", device}}, w.kernels);
    });
  }

  void devices() {
    out_.family("cutrace_gpu_busy_seconds_total", "counter",
                "Time in which a GPU worked, overlapping work counted once.");
    each_device([this](const std::string& device, const device_numbers& n) {
      out_.sample_seconds({{"device", device}}, static_cast<std::uint64_t>(n.busy.length_ns()));
    });
    out_.family("cutrace_gpu_operations_total", "counter", "Kernels, copies, sets and whole graphs that a GPU ran.");
    each_device([this](const std::string& device, const device_numbers& n) {
      for (std::size_t c = 0; c < n.operations.size(); ++c) {
        const char* category = analysis::name_of(static_cast<analysis::category>(c));
        if (n.operations[c] != 0) out_.sample({{"device", device}, {"category", category}}, n.operations[c]);
      }
    });
    out_.family("cutrace_copies_total", "counter", "Copies on a GPU.");
    each_device([this](const std::string& d, const device_numbers& n) { directions(d, n, n.copies); });
    out_.family("cutrace_copy_bytes_total", "counter", "Bytes copied on a GPU.");
    each_device([this](const std::string& d, const device_numbers& n) { directions(d, n, n.copy_bytes); });
    out_.family("cutrace_device_memory_live_bytes", "gauge",
                "Device memory that the trace saw allocated and not freed (needs CUTRACE_KINDS=+memory).");
    each_device([this](const std::string& device, const device_numbers& n) {
      out_.sample({{"device", device}}, n.live_bytes);
    });
    out_.family("cutrace_pinned_memory_live_bytes", "gauge",
                "Pinned host memory that the trace saw allocated and not freed (needs CUTRACE_KINDS=+memory).");
    out_.sample({}, m_.pinned_live_bytes);
  }
  void directions(const std::string& device, const device_numbers& n,
                  const std::array<std::uint64_t, copy_directions>& values) {
    for (std::size_t i = 0; i < copy_directions; ++i) {
      if (n.copies[i] != 0)
        out_.sample({{"device", device}, {"direction", to_string(static_cast<copy_direction>(i))}}, values[i]);
    }
  }

  void user() {
    for (const bool gauge : {false, true}) {
      out_.family(gauge ? "cutrace_user_value" : "cutrace_user_count_total", gauge ? "gauge" : "counter",
                  gauge ? "Values of CUTRACE_GAUGE." : "Values of CUTRACE_COUNT.");
      for (std::size_t i = 0; i < m_.user_values.size(); ++i) {
        const user_value& v = m_.user_values[i];
        if (!v.known || v.gauge != gauge) continue;
        out_.sample_signed({{"name", m_.user_labels[i]}}, v.value);
      }
    }
  }

  void quality() {
    one("cutrace_events_total", "Events that this sink was given.", m_.events);
    out_.family("cutrace_lost_records_total", "counter", "Records that did not make it into the trace.");
    for (std::size_t i = 0; i < m_.lost.size(); ++i)
      out_.sample({{"cause", to_string(static_cast<loss_cause>(i))}}, m_.lost[i]);
    one("cutrace_unattributed_operations_total", "GPU work without a known call.", m_.unattributed);
    one("cutrace_events_without_stage_total",
        "Events without the name and requests of their stage, which the memory limit left no room for.",
        m_.without_stage);
    one("cutrace_events_without_requests_total",
        "Events without their requests, which the memory limit left no room for.", m_.without_requests);
    one("cutrace_skewed_operations_total", "GPU work that seems to begin before its call.", m_.skewed);
    one("cutrace_untimed_operations_total", "GPU work that came without times.", m_.untimed);
    one("cutrace_incomplete_operations_total", "GPU work that had not ended when its record was fetched.",
        m_.incomplete);
    one("cutrace_gpu_faults_total", "Errors that lost a context.", m_.faults);
    one("cutrace_gpu_hangs_total", "Times that work did not end within the watchdog's bound.", m_.hangs);
    one("cutrace_folded_names_total", "Events whose stage or counter is beyond the limit of names.",
        saturated_sum(m_.stage_labels.folded(), m_.user_labels.folded()));
    one("cutrace_forgotten_requests_total", "Requests given up for want of room.", m_.requests.forgotten);
    one("cutrace_unfollowed_allocations_total",
        "Allocations that live bytes leave out, since the table of allocations was full.", m_.allocations_not_followed);
  }

  const metrics& m_;
  std::array<std::string, device_table::most + 1> device_;
  page out_;
};

}  // namespace prometheus
CUTRACE_END_NAMESPACE
