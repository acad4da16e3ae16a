// SPDX-License-Identifier: Apache-2.0
// Shows stages, spans and marks to another tool as NVTX ranges of the domain "cutrace", on the thread where they
// happen. Called through the C table by markers of all objects, while the gate stands at gate_told.
#pragma once

#include <atomic>
#include <cstdint>
#include <cutrace/detail/nvtx_client.hpp>
#include <cutrace/detail/site_table.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class nvtx_emitter {
 public:
  explicit nvtx_emitter(const site_table& sites) : sites_(sites) {}

  /// From here on what begins is shown. Returns nullptr, or why nothing can be. @throws std::bad_alloc
  CUTRACE_NOINLINE const char* open() {
    if (const char* why = nvtx_client::load()) return why;
    if (strings_ == nullptr) {
      strings_.reset(new std::atomic<nvtx::handle>[site_table::capacity]());
      domain_ = nvtx_client::create_domain("cutrace");
    }
    on_.store(true, std::memory_order_release);
    return nullptr;
  }

  /// From here on nothing new is shown. Scopes that were shown tell of their end themselves; spans may not, since
  /// tracing is off.
  CUTRACE_NOINLINE void close() noexcept {
    if (!on_.exchange(false, std::memory_order_acq_rel)) return;
    std::lock_guard<std::mutex> hold(mutex_);
    for (const auto& span : spans_) nvtx_client::end(domain_, span.second);
    spans_.clear();
  }

  /// Owning thread of the stage. `dynamic_name` is its name where no site has it.
  void begins(stage_frame& f, const char* dynamic_name) noexcept {
    f.head &= ~head_flags(flag_shown);  // an adopted part has the head of its stage
    if (!on_.load(std::memory_order_acquire)) return;
    const nvtx_client::attributes a = describe(f, dynamic_name);
    if (!is_span(f))
      nvtx_client::push(domain_, a);
    else if (!start_span(f.id, a))
      return;
    f.head |= head_flags(flag_shown);
  }

  /// Thread where it ends.
  void ended(const stage_frame& f) noexcept {
    if (!is_span(f)) return nvtx_client::pop(domain_);
    nvtx::range_id id = 0;
    {
      std::lock_guard<std::mutex> hold(mutex_);
      const auto found = spans_.find(f.id);
      if (found == spans_.end()) return;
      id = found->second;
      spans_.erase(found);
    }
    nvtx_client::end(domain_, id);
  }

  void passed(std::uint32_t site) noexcept {
    if (!on_.load(std::memory_order_acquire)) return;
    nvtx_client::attributes a = blank();
    name(a, site);
    nvtx_client::mark(domain_, a);
  }

 private:
  static constexpr std::size_t span_limit = 65536;

  static bool is_span(const stage_frame& f) noexcept {
    return (f.head & head_flags(flag_span | flag_adopted)) == head_flags(flag_span);
  }

  static nvtx_client::attributes blank() noexcept {
    nvtx_client::attributes a{};
    a.version = nvtx::version_3;
    a.size = sizeof(a);
    return a;
  }

  nvtx_client::attributes describe(const stage_frame& f, const char* dynamic_name) noexcept {
    nvtx_client::attributes a = blank();
    const auto form = static_cast<request_form>((f.head & head_form_mask) >> 16);
    if (form == request_form::id && f.owner == f.id) {
      a.payload_kind = nvtx::payload_uint64;
      a.payload.unsigned_64 = f.request;
    }
    if ((f.head & head_flags(flag_dynamic)) == 0) {
      name(a, static_cast<std::uint32_t>(f.head >> 32));
    } else {  // an adopted part of such a stage does not know its name
      a.message_kind = nvtx::message_ascii;
      a.message.ascii = dynamic_name != nullptr ? dynamic_name : "(named at run time)";
    }
    return a;
  }

  /// By registered string: the tool gets each text once.
  void name(nvtx_client::attributes& a, std::uint32_t site) noexcept {
    if (site >= site_table::capacity) site = site_table::full_id;
    std::atomic<nvtx::handle>& known = strings_[site];
    nvtx::handle string = known.load(std::memory_order_acquire);
    const char* text = sites_.at(site).name.data;
    if (string == nullptr) {
      string = nvtx_client::register_string(domain_, text);
      known.store(string, std::memory_order_release);
    }
    a.message_kind = string != nullptr ? nvtx::message_registered : nvtx::message_ascii;
    if (string != nullptr)
      a.message.registered = string;
    else
      a.message.ascii = text;
  }

  bool start_span(std::uint64_t stage, const nvtx_client::attributes& a) noexcept {
    try {
      std::lock_guard<std::mutex> hold(mutex_);
      if (spans_.size() >= span_limit) return false;
      nvtx::range_id& id = spans_[stage];
      id = nvtx_client::start(domain_, a);
      return true;
    } catch (...) {  // out of memory: one span is not shown
      return false;
    }
  }

  const site_table& sites_;
  std::atomic<bool> on_{false};
  nvtx::handle domain_ = nullptr;
  std::unique_ptr<std::atomic<nvtx::handle>[]> strings_;  ///< by site
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, nvtx::range_id> spans_;  ///< by stage
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
