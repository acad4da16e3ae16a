// SPDX-License-Identifier: Apache-2.0
// An emitter in front of another one: a derived class changes events on their way, all else is passed on unchanged.
#pragma once

#include <cutrace/backend.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

/// Lives while one buffer is decoded, on the collector's thread.
class forwarding_emitter : public event_emitter {
 public:
  explicit forwarding_emitter(event_emitter& to) : to_(to) {}

  text intern(const char* data, std::size_t size) override { return to_.intern(data, size); }
  text demangle(text mangled) override { return to_.demangle(mangled); }
  void count_loss(loss_cause cause, std::uint64_t n) override { to_.count_loss(cause, n); }
  void count_quality(std::uint32_t index) override { to_.count_quality(index); }

 protected:
  event_emitter& to_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
