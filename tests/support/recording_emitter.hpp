// SPDX-License-Identifier: Apache-2.0
// An event emitter that keeps what it is given, for tests of decoders. "Demangling" marks the name, so that a test sees
// that it was asked for.
#pragma once

#include <cstdint>
#include <cutrace/backend.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace support {

class recording_emitter : public cutrace::event_emitter {
 public:
  void emit(const cutrace::event& e) override { events.push_back(e); }
  cutrace::text intern(const char* text, std::size_t size) override {
    ++interned;
    const std::string& s = *strings_.emplace(text, size).first;
    return {s.c_str(), static_cast<std::uint32_t>(s.size())};
  }
  cutrace::text demangle(cutrace::text mangled) override {
    const std::string human = "demangled " + std::string(mangled.data, mangled.size);
    return intern(human.data(), human.size());
  }
  void count_loss(cutrace::loss_cause cause, std::uint64_t n) override { lost[cause] += n; }
  void count_quality(std::uint32_t index) override { ++quality[index]; }

  std::uint64_t lost_total() const {
    std::uint64_t n = 0;
    for (const auto& l : lost) n += l.second;
    return n;
  }

  std::vector<cutrace::event> events;
  std::map<cutrace::loss_cause, std::uint64_t> lost;
  std::map<std::uint32_t, std::uint64_t> quality;
  std::uint64_t interned = 0;

 private:
  std::set<std::string> strings_;
};

inline std::string string_of(cutrace::text t) { return std::string(t.data, t.size); }

}  // namespace support
