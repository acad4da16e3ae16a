// SPDX-License-Identifier: Apache-2.0
// Trace files of any length, as the sinks write them, of a made-up inference server.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cutrace/sinks/sink_registry.hpp>
#include <memory>
#include <string>
#include <vector>

namespace bench {

inline cutrace::text text_of(const char* s) { return {s, static_cast<std::uint32_t>(std::strlen(s))}; }

/// An inference server: steps of a stage with requests, sixteen launches and two copies, each with its call.
class trace_server {
 public:
  static constexpr std::uint64_t events_a_step = 1 + 2 * 18;

  void run(cutrace::sink& to, std::uint64_t events) {
    for (std::uint64_t n = 0; n < events / events_a_step; ++n) {
      batch_.clear();
      step(n);
      to.write({batch_.data(), batch_.size()});
    }
  }

 private:
  void step(std::uint64_t n) {
    for (std::uint64_t i = 0; i < 8; ++i) {
      requests_[i] = cutrace::request_ref();
      requests_[i].id = n / 16 + i;
    }
    const std::int64_t begin = now_;
    stage_ = cutrace::event();
    stage_.kind = cutrace::event_kind::stage;
    stage_.process_id = 4242;
    stage_.thread_id = 4250 + static_cast<std::uint32_t>(n % 4);
    stage_.stage_id = (std::uint64_t{stage_.thread_id} << 40) + n;
    stage_.name = stage_.stage_name = decode_;
    stage_.requests = requests_;
    stage_.request_count = stage_.request_total = 8;
    launch(true);
    for (unsigned i = 0; i < 16; ++i) launch(false);
    launch(true);
    stage_.start_ns = begin - 100;
    stage_.end_ns = now_;
    stage_.stage.file = file_;
    stage_.stage.line = 77;
    batch_.push_back(stage_);
  }
  cutrace::event part(cutrace::event_kind kind) const {
    cutrace::event e;
    e.kind = kind;
    e.process_id = 4242;
    e.thread_id = stage_.thread_id;
    e.stage_id = stage_.stage_id;
    e.stage_name = stage_.name;
    e.requests = requests_;
    e.request_count = e.request_total = 8;
    e.correlation_id = correlation_;
    return e;
  }
  void launch(bool copy) {
    ++correlation_;
    cutrace::event call = part(cutrace::event_kind::api);
    call.start_ns = now_ += 700;
    call.end_ns = now_ += 2900;
    call.name = copy ? copy_call_ : launch_call_;
    call.api.function = 307;
    call.api.result_name = success_;
    arguments_[0].name = arg_f_;
    arguments_[0].value = 0x55d0c0de0010u;
    arguments_[1].name = arg_stream_;
    arguments_[1].value = 0x55d0c0ffee00u;
    call.api.arguments = arguments_;
    call.api.argument_count = 2;
    batch_.push_back(call);
    cutrace::event work = part(copy ? cutrace::event_kind::memcpy : cutrace::event_kind::kernel);
    work.joined = cutrace::attribution::by_call;
    work.context = 1;
    work.stream = 7 + correlation_ % 3;
    work.call_start_ns = call.start_ns;
    work.call_name = call.name;
    work.start_ns = now_ + 500;
    work.end_ns = now_ += 900 + static_cast<std::int64_t>(correlation_ % 7) * 100;
    if (copy) {
      work.memcpy_.bytes = 8192;
      work.memcpy_.direction = cutrace::copy_direction::host_to_device;
      work.memcpy_.source = cutrace::memory_kind::pinned;
      work.memcpy_.destination = cutrace::memory_kind::device;
      work.memcpy_.asynchronous = true;
    } else {
      work.name = kernels_[correlation_ % 4];
      work.kernel.mangled_name = mangled_;
      for (std::uint32_t& n : work.kernel.grid) n = 1;
      for (std::uint32_t& n : work.kernel.block) n = 1;
      work.kernel.grid[0] = 132;
      work.kernel.block[0] = 256;
      work.kernel.registers_per_thread = 64;
      work.kernel.dynamic_shared_bytes = 32768;
    }
    batch_.push_back(work);
  }

  const cutrace::text decode_ = text_of("decode"), file_ = text_of("server.cpp"),
                      launch_call_ = text_of("cuLaunchKernel"), copy_call_ = text_of("cuMemcpyHtoDAsync_v2"),
                      success_ = text_of("CUDA_SUCCESS"), arg_f_ = text_of("f"), arg_stream_ = text_of("hStream"),
                      mangled_ = text_of("_ZN7cutlass7Kernel2I52cutlass_80_tensorop_f16_s16816gemm_relu_f16_64x64_32");
  const cutrace::text kernels_[4] = {
      text_of("void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_64x64_32x6_tn_align8>(Params)"),
      text_of("softmax_warp_forward<float, 10>"), text_of("layer_norm"), text_of("rotary_embedding")};
  std::vector<cutrace::event> batch_;
  cutrace::event stage_;
  cutrace::request_ref requests_[8];
  cutrace::argument arguments_[2];
  std::uint64_t correlation_ = 0;
  std::int64_t now_ = 1000;
};

/// @param specification the sink, with %s for the path
inline void write_trace(const char* specification, const std::string& path, std::uint64_t events) {
  char words[1024];
  std::snprintf(words, sizeof(words), specification, path.c_str());
  std::vector<std::unique_ptr<cutrace::sink>> sinks = cutrace::make_sinks(words);
  cutrace::trace_info info{};
  info.process_id = 4242;
  info.process_name = "server";
  info.command_line = info.host_name = info.boot_id = info.backend = info.backend_detail = info.clock = "";
  info.rank = -1;
  info.start = {0, 1790000000000000000u, 5000000000u, 5000000000u, 100};
  sinks[0]->open(info);
  trace_server().run(*sinks[0], events);
  cutrace::trace_summary summary{};
  summary.stop = info.start;
  sinks[0]->close(summary);
}

}  // namespace bench
