// SPDX-License-Identifier: Apache-2.0
// Which calls CUPTI notifies us of: every driver function that the library knows, enumerated at run time, and what
// happens to CUDA graphs.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <cstring>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/complain.hpp>
#include <cutrace/cupti/functions.hpp>
#include <cutrace/cupti/graph_callbacks.hpp>
#include <cutrace/cupti/options.hpp>
#include <cutrace/cupti/process_state.hpp>
#include <cutrace/cupti/recording_switch.hpp>
#include <cutrace/cupti/runtime_calls.hpp>
#include <cutrace/cupti/waits.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

/// For one session. `recording` is given the functions whose callbacks it switches off and on.
class call_hooks {
 public:
  /// `gated`: calls that launch or make executable graphs enter the gate process_state::graphs. Without CUPTI's
  /// SYNCHRONIZATION records, calls that wait are recorded as waits, too.
  call_hooks(process_state& p, event_writer& w, CUpti_SubscriberHandle s, recording_switch& recording, bool gated,
             const options& o)
      : p_(p), writer_(w), subscriber_(s), recording_(recording), gated_(gated), options_(o) {}

  /// Names the driver's functions and enables their callbacks. Functions that only ask are included if `queries`; else
  /// only cuStreamQuery and cuEventQuery are, by which programs poll for the end of work, for the errors that they
  /// return (a transformer's decode loop in PyTorch calls neither). Returns the number of enabled functions.
  std::uint32_t enable_driver(bool queries) {
    CUptiResult failure = CUPTI_SUCCESS;
    const CUptiResult nameless = for_each_name(CUPTI_CB_DOMAIN_DRIVER_API, [&](std::uint32_t cbid, const char* symbol) {
      const function_entry* known = find_driver(cbid);
      const bool recorded = known == nullptr || !known->query || queries;
      if (!recorded && !polls(symbol)) return;
      name_function(writer_, cbid, symbol, known);
      p_.recipes[cbid].set(recorded ? traits_of(symbol, known) : unsigned{call_recipe::only_result}, known);
      const CUptiResult r = p_.api.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, cbid);
      if (r == CUPTI_SUCCESS)
        recording_.add_call(cbid);
      else
        failure = r;
    });
    report_missing(recording_.calls(), nameless, failure);
    return recording_.calls();
  }

  /// Enables callbacks of the runtime API, so that a driver call carries the name of the runtime function that made it.
  /// Runtime functions that only ask are included if `queries`.
  void enable_runtime(bool queries) {
    CUptiResult failure = CUPTI_SUCCESS;
    runtime_calls::begin(p_);
    const CUptiResult nameless =
        for_each_name(CUPTI_CB_DOMAIN_RUNTIME_API, [&](std::uint32_t cbid, const char* symbol) {
          const function_entry* known = find_runtime(cbid);
          if (known != nullptr && known->query && !queries) return;
          name_runtime_function(writer_, cbid, symbol, known);
          const CUptiResult r = p_.api.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API, cbid);
          if (r == CUPTI_SUCCESS)
            recording_.add_runtime_call(cbid);
          else
            failure = r;
        });
    const std::string effect = " of the runtime domain, calls lack names of the runtime API";
    const bool enabled = failure == CUPTI_SUCCESS;
    complain(writer_, ((enabled ? "cuptiGetCallbackName" : "cuptiEnableCallback") + effect).c_str(),
             enabled ? nameless : failure);
  }

  /// Enables the callbacks that show in which stage a node of a graph was captured.
  void enable_graphs() const {
    if (!graph_callbacks::possible(p_.api)) return;
    CUptiResult failure = CUPTI_SUCCESS;
    for (const CUpti_CallbackIdResource cbid : graph_callbacks::wanted) {
      const CUptiResult r =
          p_.api.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, static_cast<CUpti_CallbackId>(cbid));
      if (r != CUPTI_SUCCESS) failure = r;
    }
    complain(writer_, "cuptiEnableCallback of the resource domain, work of graphs has no stage of its capture",
             failure);
  }

 private:
  /// Calls `use(id, symbol)` for each function of a domain. Returns CUPTI_SUCCESS, or why some have no name.
  template <class Use>
  CUptiResult for_each_name(CUpti_CallbackDomain domain, Use use) const {
    CUptiResult nameless = CUPTI_SUCCESS;
    std::uint32_t unnamed = 0;
    for (std::uint32_t cbid = 1; cbid < process_state::function_limit && unnamed < 64; ++cbid) {
      const char* symbol = nullptr;
      const CUptiResult named = p_.api.cuptiGetCallbackName(domain, cbid, &symbol);
      if (named == CUPTI_SUCCESS && symbol != nullptr) {
        unnamed = 0;
        use(cbid, symbol);
        continue;
      }
      ++unnamed;  // numbers are given out without large holes: a run of unknown ones is the end
      if (named != CUPTI_ERROR_INVALID_PARAMETER) nameless = named;
    }
    return nameless;
  }

  void report_missing(std::uint32_t count, CUptiResult nameless, CUptiResult failure) const {
    const std::string effect = count != 0 ? ", some calls are missing" : ", no call is recorded and GPU work has none";
    complain(writer_, ("cuptiGetCallbackName" + effect).c_str(), nameless);
    complain(writer_, ("cuptiEnableCallback" + effect).c_str(), failure);
    if (count == 0 && nameless == CUPTI_SUCCESS && failure == CUPTI_SUCCESS)
      writer_.report("cupti", ("this libcupti knows no driver function" + effect).c_str());
  }

  static bool starts_with(const char* symbol, const char* with) noexcept {
    return std::strncmp(symbol, with, std::strlen(with)) == 0;
  }
  static bool polls(const char* symbol) noexcept {
    return starts_with(symbol, "cuStreamQuery") || starts_with(symbol, "cuEventQuery");
  }
  /// Whether records carry the ids of calls that do `work`: those of memory, waits and events do, too.
  bool has_records(function_work work) const noexcept {
    if (work == function_work::copy) return options_.has(record_group::memcpy) || options_.has(record_group::sync);
    if (work == function_work::set) return options_.has(record_group::memset) || options_.has(record_group::sync);
    if (work == function_work::launch) return options_.has(record_group::kernel) || p_.kernels_left_on;
    return work != function_work::none;
  }
  unsigned traits_of(const char* symbol, const function_entry* known) const {
    unsigned traits = 0;
    if (known == nullptr || has_records(known->work)) traits |= call_recipe::makes_work;
    if (starts_with(symbol, "cuGraphExecUpdate") && p_.api.cuptiGetGraphExecId != nullptr)
      traits |= call_recipe::updates_graph;
    if (!options_.has(record_group::sync) && waits::is_made_by(known)) traits |= call_recipe::waits;
    if (waits::takes_context(known)) traits |= call_recipe::takes_context;
    const bool passes_gate = starts_with(symbol, "cuGraphLaunch") || starts_with(symbol, "cuGraphInstantiate") ||
                             starts_with(symbol, "cuGraphExec") || starts_with(symbol, "cuGraphUpload");
    if (gated_ && passes_gate) traits |= call_recipe::uses_graph_gate;
    return traits;
  }

  process_state& p_;
  event_writer& writer_;
  CUpti_SubscriberHandle subscriber_;
  recording_switch& recording_;
  bool gated_;
  const options& options_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
