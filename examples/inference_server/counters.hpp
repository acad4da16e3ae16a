// SPDX-License-Identifier: Apache-2.0
// The program's own count of the GPU work it asks for, independent of any tracer. Printed as one line of JSON, so that
// a test can hold a trace against it.
#pragma once

#include <cstdint>
#include <cstdio>

namespace server {

struct traffic {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  void add(std::uint64_t n) {
    ++count;
    bytes += n;
  }
  traffic& operator+=(const traffic& o) {
    count += o.count;
    bytes += o.bytes;
    return *this;
  }
};

/// What a stream was given to do. Nodes of a graph count once for each replay; `in_graphs` says how many those were.
struct gpu_work {
  std::uint64_t kernels = 0;
  traffic htod, dtoh, dtod, memset;
  std::uint64_t graph_launches = 0;
  std::uint64_t kernels_in_graphs = 0;  ///< part of `kernels`
  std::uint64_t copies_in_graphs = 0;   ///< part of `htod`, `dtoh` and `dtod`

  gpu_work& operator+=(const gpu_work& o) {
    kernels += o.kernels;
    htod += o.htod;
    dtoh += o.dtoh;
    dtod += o.dtod;
    memset += o.memset;
    graph_launches += o.graph_launches;
    kernels_in_graphs += o.kernels_in_graphs;
    copies_in_graphs += o.copies_in_graphs;
    return *this;
  }
};

/// What the program did for its users.
struct service_counts {
  std::uint64_t requests = 0, prompt_tokens = 0, new_tokens = 0, prefills = 0, decode_steps = 0;

  service_counts& operator+=(const service_counts& o) {
    requests += o.requests;
    prompt_tokens += o.prompt_tokens;
    new_tokens += o.new_tokens;
    prefills += o.prefills;
    decode_steps += o.decode_steps;
    return *this;
  }
};

inline void print(std::FILE* out, const gpu_work& g, const service_counts& s) {
  const auto field = [out](const char* name, std::uint64_t value, const char* after = ",") {
    std::fprintf(out, "\"%s\":%llu%s", name, static_cast<unsigned long long>(value), after);
  };
  std::fputs("counted {", out);
  field("kernels", g.kernels);
  field("htod", g.htod.count);
  field("htod_bytes", g.htod.bytes);
  field("dtoh", g.dtoh.count);
  field("dtoh_bytes", g.dtoh.bytes);
  field("dtod", g.dtod.count);
  field("dtod_bytes", g.dtod.bytes);
  field("memsets", g.memset.count);
  field("memset_bytes", g.memset.bytes);
  field("graph_launches", g.graph_launches);
  field("kernels_in_graphs", g.kernels_in_graphs);
  field("copies_in_graphs", g.copies_in_graphs);
  field("requests", s.requests);
  field("prompt_tokens", s.prompt_tokens);
  field("new_tokens", s.new_tokens);
  field("prefills", s.prefills);
  field("decode_steps", s.decode_steps, "}\n");
}

}  // namespace server
