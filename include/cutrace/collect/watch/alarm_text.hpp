// SPDX-License-Identifier: Apache-2.0
// One piece of work that an alarm names, and helpers that write the text block of an alarm.
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cutrace/collect/pending.hpp>
#include <string>
#include <string_view>

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
  static const char* printable(text t) noexcept { return t.size != 0 && t.data != nullptr ? t.data : "(unknown)"; }
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
    append(s, "stage \"%.100s\"", printable(e.stage_name));
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
        append(s, "%.60s", printable(e.requests[i].name));
      else
        append(s, "%llu", static_cast<unsigned long long>(e.requests[i].id));
    }
    if (e.request_total > 8) append(s, " and %u more", e.request_total - 8);
    return s;
  }

  /// `pattern`: a name, "*" at its end stands for any rest.
  static bool fits(const std::string& pattern, std::string_view name) {
    if (!pattern.empty() && pattern.back() == '*')
      return name.substr(0, pattern.size() - 1) == std::string_view(pattern).substr(0, pattern.size() - 1);
    return name == pattern;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
