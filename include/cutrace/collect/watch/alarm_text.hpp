// SPDX-License-Identifier: Apache-2.0
// One piece of work that an alarm names, and helpers that write the text block of an alarm.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cutrace/base/write_all.hpp>
#include <cutrace/collect/pending.hpp>
#include <cutrace/collect/watch/stream_order.hpp>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// One piece of work that an alarm names.
struct suspect {
  pending_event alarm;
  std::uint32_t group = 0;  ///< lower ones come first
  text before{};            ///< what ended last before it on its stream
  std::int64_t before_ns = 0;
};

struct alarm_text {
  static void sort(std::vector<suspect>& all) {
    std::stable_sort(all.begin(), all.end(), [](const suspect& a, const suspect& b) { return a.group < b.group; });
  }
  /// Suspects of other contexts than `own` come behind all others; 0: it is not known.
  static void put_others_last(std::uint32_t own, std::vector<suspect>& all) {
    constexpr std::uint32_t last = 8;
    for (suspect& s : all)  // calls have 16 bits of it
      if (own != 0 && static_cast<std::uint16_t>(s.alarm.context ^ own) != 0) s.group += last;
  }
  /// A name on one line: names come from others, a request's even from a network, and would else write lines into logs.
  static std::string plain(text t) {
    if (t.size == 0 || t.data == nullptr) return "(unknown)";
    std::string s(t.data, t.size);
    mask_controls(&s[0], s.size());
    std::replace(s.begin(), s.end(), '\n', '?');
    return s;
  }
  __attribute__((format(printf, 2, 3))) static void append(std::string& out, const char* format, ...) {
    char line[512];
    std::va_list values;
    va_start(values, format);
    const int n = std::vsnprintf(line, sizeof(line), format, values);
    va_end(values);
    if (n > 0) out.append(line, std::min<std::size_t>(static_cast<std::size_t>(n), sizeof(line) - 1));
  }

  static std::string seconds(std::int64_t ns) {
    std::string s;
    if (ns < 0) ns = 0;
    if (ns < 1000000000)
      append(s, "%.1f ms", static_cast<double>(ns) / 1e6);
    else
      append(s, "%.1f s", static_cast<double>(ns) / 1e9);
    return s;
  }
  /// Stage and requests of `e`, as text. `around`: text for the stages in which that stage runs.
  static std::string belonging(const event& e, const std::string& around) {
    std::string s;
    if (e.stage_name.size == 0) return e.stage_id == 0 ? "outside of any stage" : "its stage is not known any more";
    append(s, "stage \"%.100s\"", plain(e.stage_name).c_str());
    s += around;
    if (e.request_total == 0) return s;
    if (e.request_count == 0) {
      append(s, ", %u request%s not known any more", e.request_total,
             e.request_total == 1 ? ", which is" : "s, which are");
      return s;
    }
    s += e.request_total == 1 ? ", request " : ", requests ";
    for (std::uint32_t i = 0; i < e.request_count && i < 8; ++i) {
      if (i != 0) s += ", ";
      if (e.requests[i].name.size != 0)
        append(s, "%.60s", plain(e.requests[i].name).c_str());
      else
        append(s, "%llu", static_cast<unsigned long long>(e.requests[i].id));
    }
    if (e.request_total > 8) append(s, " and %u more", e.request_total - 8);
    return s;
  }

  static text work_word(event_kind k) noexcept {
    return k == event_kind::kernel   ? text{"kernel", 6}
           : k == event_kind::memcpy ? text{"memcpy", 6}
           : k == event_kind::memset ? text{"memset", 6}
                                     : text{"graph", 5};
  }
  /// What the call `name` put on its stream.
  static text work_word(const issued_call& c, text name) noexcept {
    using role = stream_use::role;
    if (c.what == role::wait_event) return {"wait_event", 10};
    if (c.what == role::wait_value) return {"wait_value", 10};
    if (c.what == role::host_function) return {"host_function", 13};
    if (c.what == role::graph) return {"graph", 5};
    if (is_launch(name)) return {"kernel", 6};
    return c.leaves_record() && std::strstr(name.data, "emset") != nullptr ? text{"memset", 6} : text{"memcpy", 6};
  }
  static bool is_launch(text name) noexcept { return starts_with(name, "cuLaunch"); }
  static bool starts_with(text name, std::string_view with) noexcept {
    return std::string_view(name.data, name.size).substr(0, with.size()) == with;
  }
  /// Flags as in cuda.h, CUstreamWaitValue_flags. A batch's arguments are its length and the address of its parts.
  static std::string what_is_awaited(text function, const issued_call& c) {
    static constexpr const char* const how[] = {"at least", "equal to", "with a bit of", "without some bit outside of"};
    if (starts_with(function, "cuStreamBatchMemOp")) return "memory operations of a batch, one of which may be a wait";
    std::string s;
    append(s, "waits for the value at 0x%llx to be %s 0x%llx", static_cast<unsigned long long>(c.handle),
           how[c.flags & 3], static_cast<unsigned long long>(c.value));
    return s;
  }

  /// `pattern`: a name, "*" at its end stands for any rest.
  static bool fits(const std::string& pattern, std::string_view name) {
    if (!pattern.empty() && pattern.back() == '*')
      return name.substr(0, pattern.size() - 1) == std::string_view(pattern).substr(0, pattern.size() - 1);
    return name == pattern;
  }
  /// `function`: as C++ writes it. A pattern may leave out its parameters.
  static bool is_one_of(const std::vector<std::string>& patterns, std::string_view function) {
    return std::any_of(patterns.begin(), patterns.end(), [function](const std::string& p) {
      return fits(p, function) || function.substr(0, function.find('(')) == p;
    });
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
