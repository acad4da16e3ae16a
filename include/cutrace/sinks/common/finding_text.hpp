// SPDX-License-Identifier: Apache-2.0
// A finding in words: one sentence that says what is wrong, what it costs and where, and one that says what to do. For
// every report, whatever its form.
#pragma once

#include <cstdint>
#include <cutrace/analysis/finding.hpp>
#include <cutrace/analysis/gpu_work.hpp>
#include <cutrace/sinks/ascii/page.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

struct finding_words {
  std::string title;   ///< a few words
  std::string what;    ///< one sentence
  std::string advice;  ///< one sentence
};

/// " in stage "decode"", " after cuStreamSynchronize", ... Empty where nothing is known.
CUTRACE_NOINLINE inline std::string place_words(const analysis::finding& f, const char* before_call) {
  std::string s;
  if (!f.call.empty() && before_call != nullptr) append(s, {" ", before_call, " ", label(f.call, 40)});
  if (!f.stage.empty()) append(s, {" in stage \"", label(f.stage, 32), "\""});
  if (!f.site.empty()) append(s, {" (", place(f.site, 40), ")"});
  if (f.places > 1 && !s.empty()) append(s, {" and ", counted(f.places - 1, "other place")});
  return s;
}

/// Of host_bound: what the thread that launched after the gaps did in them, and what other threads did meanwhile.
CUTRACE_NOINLINE inline std::string host_bound_words(const analysis::finding& f) {
  std::string s = " in which the host is busy ";
  s += f.call.empty() ? "with its own code" : "elsewhere";
  s += place_words(f, "in");
  if (f.stage.empty()) {
    s += " outside of any stage";
    if (f.places > 1) append(s, {" and in ", counted(f.places - 1, "other place")});
  }
  if (!f.next_stage.empty() && f.next_stage != f.stage)
    append(s, {" before it launches in \"", label(f.next_stage, 32), "\""});
  s += ".";
  for (std::size_t i = 0; i < f.meanwhile.size(); ++i) {
    const analysis::gap_company& c = f.meanwhile[i];
    append(s, {i == 0 ? " Meanwhile, in the longest: \"" : ", \"", label(c.stage, 32), "\" "});
    if (c.thread_id == 0)
      s += "(a span)";
    else
      append(s, {"on thread ", digits(c.thread_id)});
    append(s, {" for ", duration(c.ns), i + 1 == f.meanwhile.size() ? "." : ""});
  }
  return s;
}

/// @param recorded_ns the whole time that shares refer to
CUTRACE_NOINLINE inline finding_words words_of(const analysis::finding& f, std::int64_t recorded_ns) {
  using analysis::finding_kind;
  const std::string cost = joined(
      {duration(f.cost_ns), " (", share_of(static_cast<double>(f.cost_ns), static_cast<double>(recorded_ns)), ")"});
  const std::string rate = joined({bandwidth(f.bytes_per_s), f.peak_bytes_per_s > 0 ? " of nominally " : "",
                                   f.peak_bytes_per_s > 0 ? bandwidth(f.peak_bytes_per_s) : figure()});
  const std::string copies = joined({count(f.count), f.count == 1 ? " copy, " : " copies, ", bytes(f.bytes)});
  switch (f.is) {
    case finding_kind::transfers_dominate:
      return {"copies dominate",
              joined({"For ", cost, " the GPU only copies to or from the host or another GPU (", copies, ")",
                      place_words(f, nullptr), "."}),
              "Keep the data on the device between steps, send it in a smaller type, and send only what changed."};
    case finding_kind::pageable_copies:
      return {"pageable copies",
              joined({"Copies of pageable memory run through a buffer of the driver and make the host wait: ", cost,
                      " without a kernel beside them (", copies, " at ", rate, ")", place_words(f, nullptr), "."}),
              "Allocate these buffers with cudaMallocHost (or register them once) and use the Async copies."};
    case finding_kind::blocking_copies:
      return {"blocking copies",
              joined({"The GPU is idle for ", cost, " in ", counted(f.count, "gap"),
                      ", because the host waits for a copy", place_words(f, "in"), " and launches again only then."}),
              "Copy with cudaMemcpyAsync from pinned memory and wait only where the data is used."};
    case finding_kind::synchronisation:
      return {"synchronising in the loop",
              joined({"The GPU is idle for ", cost, " in ", counted(f.count, "gap"), ", because the host waits for it",
                      place_words(f, "in"), " and launches again only then."}),
              "Launch ahead: wait once at the end, or for an event of an earlier step (cudaStreamWaitEvent)."};
    case finding_kind::launch_bound:
      return {"launch bound",
              joined({"Launching takes longer than running: the GPU is idle for ", cost, " between kernels; ",
                      counted(f.count, "kernel"), " under 10 us, median ", duration(f.typical_ns), ", mostly \"",
                      label(f.kernel, 40), "\"", place_words(f, nullptr), "."}),
              "Record the sequence as a CUDA graph and launch that, or fuse the small kernels."};
    case finding_kind::allocation:
      return {"allocation in the loop",
              joined({"The GPU is idle for ", cost, " in ", counted(f.count, "gap"),
                      " in which the host allocates or frees memory", place_words(f, "by"), "."}),
              "Allocate once and reuse, or allocate from a pool with cudaMallocAsync."};
    case finding_kind::host_bound:
      return {
          "GPU waits for the host",
          joined({"The GPU is idle for ", cost, " in ", counted(f.count, "gap"), host_bound_words(f)}),
          "Prepare the next step while the GPU runs this one, on another thread if need be, or make that code faster."};
    case finding_kind::single_stream:
      return {
          "one stream only",
          joined({counted(f.count, "kernel"), " of independent requests or threads, too small to fill the GPU, run ",
                  "one after the other on its only stream: ", cost, place_words(f, nullptr), "."}),
          "Give each request or thread a stream of its own, or batch them into larger kernels."};
    case finding_kind::unused_overlap:
      return {"copies and kernels never overlap",
              joined({"For ", cost, " the GPU copies while no kernel runs (", copies, ")", place_words(f, nullptr),
                      ", although each could hide behind the other."}),
              "Copy the next piece on a second stream while this one is computed; use pinned memory and two buffers."};
    case finding_kind::low_bandwidth:
      return {
          "low bandwidth",
          joined({"Copies (", label(f.kernel, 16), ") reach ", rate, ": ", cost, " without a kernel beside them (",
                  copies, f.small_ones ? ", most of the time in small ones" : "", ")", place_words(f, nullptr), "."}),
          f.small_ones ? "Gather small copies into one large one."
          : f.kernel == name_of(analysis::work_class::device_to_device)
              ? "Copy in large pieces of contiguous memory, or let kernels read the data where it is."
              : "Copy in large pieces from pinned memory near the GPU, and look at the link (nvidia-smi -q)."};
    case finding_kind::losses:
      break;
  }
  return {"records lost",
          joined({counted(f.count, "record"), " of the trace ", f.count == 1 ? "was" : "were",
                  " lost: the times above are too small by an unknown amount."}),
          "Raise CUTRACE_MEMORY_LIMIT, trace less, or sample; the end of the report says where they went."};
}

/// "at 1.23 s: idle for 45.6 us on GPU 0, until "k", correlation 17"
/// @param start_ns begin of the trace: printed times count from it
CUTRACE_NOINLINE inline std::string words_of(const analysis::evidence& e, std::int64_t start_ns) {
  std::string s = joined({"at ", duration(e.when.start_ns - start_ns), ": "});
  if (e.is == analysis::evidence::kind::gap)
    append(s, {"idle for ", duration(e.when.length_ns()), " on GPU ", digits(e.device), ", until \"", label(e.name, 40),
               "\""});
  else
    append(s, {"\"", label(e.name, 40), "\" for ", duration(e.when.length_ns())});
  if (e.is == analysis::evidence::kind::work) append(s, {", GPU ", digits(e.device), " stream ", digits(e.stream)});
  if (e.thread_id != 0) append(s, {", thread ", digits(e.thread_id)});
  if (e.correlation != 0) append(s, {", correlation ", digits(e.correlation)});
  return s;
}

}  // namespace ascii
CUTRACE_END_NAMESPACE
