// SPDX-License-Identifier: Apache-2.0
// Parts that a build of the command may lack, since what they need was missing: `cutrace --version --verbose` and
// `cutrace doctor` print them.
#pragma once

#include <string>

namespace cutrace_tool {

struct build_part {
  bool there;
  const char* what;
  const char* needs;
};

#if defined(CUTRACE_WITH_EBPF)
constexpr bool built_with_ebpf = true;
#else
constexpr bool built_with_ebpf = false;
#endif
#if defined(CUTRACE_WITH_CUPTI)
constexpr bool built_with_cupti = true;
#else
constexpr bool built_with_cupti = false;
#endif

inline constexpr build_part build_parts[] = {
    {CUTRACE_READS_TRACES != 0, "reading of trace files (report, why, diff, convert, cut, merge)",
     "simdjson and zlib's headers (Debian: libsimdjson-dev, zlib1g-dev)"},
    {CUTRACE_WRITES_PERFETTO != 0, "sink perfetto", "protozero (Debian: libprotozero-dev)"},
    {built_with_cupti, "CUPTI: GPU times, and programs that cannot be rebuilt", "CUDA's headers with CUPTI"},
    {built_with_ebpf, "methods ebpf and all, attach, bpf", "a clang that knows BPF, libbpf and libelf"},
};

/// "sink perfetto, which needs protozero (Debian: libprotozero-dev); ..."; empty where nothing is left out.
inline std::string left_out_of_build() {
  std::string text;
  for (const build_part& p : build_parts)
    if (!p.there) text += (text.empty() ? "" : "; ") + std::string(p.what) + ", which needs " + p.needs;
  return text;
}

}  // namespace cutrace_tool
