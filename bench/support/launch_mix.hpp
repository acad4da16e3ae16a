// SPDX-License-Identifier: Apache-2.0
// A backend that makes up what a busy inference server gives the collector: stages with requests, launches and copies
// with their arguments through the event writer, and the GPU's records in buffers that are decoded on the collector's
// thread. Nothing is drawn at random, so every run offers the same work.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <cutrace/backend.hpp>
#include <cutrace/cutrace.hpp>
#include <vector>

namespace bench {

class launch_mix : public cutrace::backend {
 public:
  static constexpr int layers = 4, launches_a_layer = 4;
  /// Stages, calls and GPU records of one `step`.
  static constexpr std::uint64_t events_a_step = 1 + layers + 2 * layers * launches_a_layer + 2 * 2 + 2;

  const char* name() const noexcept override { return "mix"; }
  cutrace::backend_status start(cutrace::event_writer& writer) override {
    writer_ = &writer;
    name_functions();
    return {true, "made up by the benchmark"};
  }
  bool flush(std::uint32_t) noexcept override { return true; }  // each thread hands over its own, see `thread`
  bool stop(std::uint32_t) noexcept override { return true; }

  /// What one application thread does. Its records are handed over as a driver would: a full buffer at a time.
  class thread {
   public:
    thread(launch_mix& mix, std::uint64_t stream) : mix_(mix), writer_(*mix.writer_), stream_(stream) {
      records_ = new buffer(mix);
    }
    thread(const thread&) = delete;
    thread& operator=(const thread&) = delete;
    ~thread() { hand_over(); }

    /// A step of a model: prefill of one named request, or decode of a batch of eight.
    void step(std::uint64_t number) {
      if (number % 8 == 0) {
        char request[32];
        std::snprintf(request, sizeof(request), "request-%llu", static_cast<unsigned long long>(number / 8 % 1000));
        CUTRACE_STAGE("prefill", request);
        forward();
      } else {
        std::uint64_t ids[8];
        for (std::uint64_t i = 0; i < 8; ++i) ids[i] = number + i;
        CUTRACE_STAGE_BATCH("decode", ids, 8);
        forward();
      }
    }

   private:
    void forward() {
      copy(copy_in, cutrace::copy_direction::host_to_device, 8192);
      for (int i = 0; i < layers; ++i) {
        CUTRACE_STAGE("layer");
        for (int k = 0; k < launches_a_layer; ++k) launch(i * launches_a_layer + k);
      }
      copy(copy_out, cutrace::copy_direction::device_to_host, 256);
      synchronize();
    }

    void launch(int n) {
      const std::uint64_t words[] = {0x55d0c0de1000u + static_cast<std::uint64_t>(n) * 0x240, stream_handle()};
      record& r = call(launch_kernel, words, 2);
      r.kind = cutrace::event_kind::kernel;
      r.kernel = kernel_names[n % kernel_count];
    }
    void copy(std::uint32_t function, cutrace::copy_direction direction, std::uint64_t bytes) {
      const std::uint64_t words[] = {0x7f32a4000000u, 0x7ffd10002000u, bytes, stream_handle()};
      record& r = call(function, words, 4);
      r.kind = cutrace::event_kind::memcpy;
      r.bytes = bytes;
      r.direction = direction;
    }
    void synchronize() {
      const std::uint64_t words[] = {stream_handle()};
      call(stream_synchronize, words, 1).kind = cutrace::event_kind::sync;
    }

    std::uint64_t stream_handle() const noexcept { return 0x55d0c0d00000u + stream_ * 0x400; }

    struct record {
      cutrace::event_kind kind;
      cutrace::copy_direction direction;
      std::uint32_t correlation;
      std::uint64_t start_ns, end_ns, stream, bytes;
      const char* kernel;
    };
    struct buffer {
      explicit buffer(launch_mix& m) : mix(m) { records.reserve(capacity); }
      static constexpr std::size_t capacity = 512;  // about what CUPTI puts into 128 KiB
      launch_mix& mix;
      std::vector<record> records;
    };

    /// The call, and the record of what it makes the GPU do: after it, and after what the stream did before.
    record& call(std::uint32_t function, const std::uint64_t* words, std::uint32_t count) {
      if (records_->records.size() == buffer::capacity) {
        hand_over();
        records_ = new buffer(mix_);
      }
      cutrace::api_call c{};
      c.function = function;
      c.correlation = mix_.correlation_.fetch_add(1, std::memory_order_relaxed);
      c.begin_ticks = writer_.ticks();
      c.stage = writer_.enter(function, c.correlation, c.begin_ticks, true);
      c.words = words;
      c.word_count = count;
      c.end_ticks = writer_.ticks();
      writer_.exit(c);
      const std::uint64_t now = writer_.raw_ns(c.end_ticks);
      record r{};
      r.correlation = c.correlation;
      r.start_ns = now > gpu_ns_ ? now : gpu_ns_;
      r.end_ns = gpu_ns_ = r.start_ns + 150;
      r.stream = stream_;
      records_->records.push_back(r);
      return records_->records.back();
    }

    void hand_over() {
      // Bounds what waits to be decoded, as a backend's buffer budget does; here the thread waits and loses nothing.
      while (mix_.in_flight_.load(std::memory_order_acquire) >= buffer_limit) usleep(200);
      mix_.in_flight_.fetch_add(1, std::memory_order_relaxed);
      const cutrace::activity_buffer b{records_->records.data(), records_->records.size() * sizeof(record), records_,
                                       &decode, &release};
      while (!writer_.submit(b)) sched_yield();
      records_ = nullptr;
    }
    static void release(const cutrace::activity_buffer& b) {
      buffer* done = static_cast<buffer*>(b.owner);
      done->mix.in_flight_.fetch_sub(1, std::memory_order_release);
      delete done;
    }
    /// Collector's thread; interns names as the CUPTI decoder does.
    static void decode(const cutrace::activity_buffer& b, cutrace::event_emitter& emitter) {
      for (const record& r : static_cast<buffer*>(b.owner)->records) {
        cutrace::event e;
        e.kind = r.kind;
        e.start_ns = static_cast<std::int64_t>(r.start_ns);
        e.end_ns = static_cast<std::int64_t>(r.end_ns);
        e.correlation_id = r.correlation;
        e.context = 1;
        e.stream = r.stream;
        if (r.kind == cutrace::event_kind::kernel) {
          e.kernel = cutrace::kernel_data{};
          e.kernel.grid[0] = 132;
          e.kernel.block[0] = 256;
          e.kernel.grid[1] = e.kernel.grid[2] = e.kernel.block[1] = e.kernel.block[2] = 1;
          e.kernel.registers_per_thread = 64;
          e.kernel.dynamic_shared_bytes = 49152;
          e.kernel.mangled_name = emitter.intern(r.kernel, std::strlen(r.kernel));
          e.name = emitter.demangle(e.kernel.mangled_name);
        } else if (r.kind == cutrace::event_kind::memcpy) {
          const bool in = r.direction == cutrace::copy_direction::host_to_device;
          e.memcpy_.bytes = r.bytes;
          e.memcpy_.direction = r.direction;
          e.memcpy_.source = in ? cutrace::memory_kind::pinned : cutrace::memory_kind::device;
          e.memcpy_.destination = in ? cutrace::memory_kind::device : cutrace::memory_kind::pinned;
          e.memcpy_.asynchronous = true;
          e.name = in ? emitter.intern("memcpy HtoD", 11) : emitter.intern("memcpy DtoH", 11);
        } else {
          e.sync.what = cutrace::sync_kind::stream;
          e.name = emitter.intern("stream synchronize", 18);
        }
        emitter.emit(e);
      }
    }

    launch_mix& mix_;
    cutrace::event_writer& writer_;
    std::uint64_t stream_;
    std::uint64_t gpu_ns_ = 0;
    buffer* records_;
  };

 private:
  enum : std::uint32_t { launch_kernel = 3900, copy_in, copy_out, stream_synchronize };
  static constexpr int kernel_count = 6;
  static constexpr std::uint32_t buffer_limit = 8;
  // Names as they occur in transformer inference: 30 to 200 characters in their human form.
  static constexpr const char* kernel_names[kernel_count] = {
      "_Z15rms_norm_kernelPKfS0_Pfi",
      "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
      "_ZN7cutlass6KernelI66cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_32x5_nn_align8EEvNT_6ParamsE",
      "_Z18rope_rotate_kernelPfPKfii",
      "_ZN5flash16flash_fwd_kernelILi128ELi64ELb1ELb0EEEvNS_16Flash_fwd_paramsE",
      "_Z17swiglu_act_kernelPKfS0_Pfi"};

  void name_functions() {
    using parameter = cutrace::function_info::parameter;
    using kind = cutrace::argument_kind;
    static constexpr parameter launch[] = {{"f", kind::handle}, {"hStream", kind::stream}};
    static constexpr parameter in[] = {{"dstDevice", kind::pointer},
                                       {"srcHost", kind::pointer},
                                       {"ByteCount", kind::bytes},
                                       {"hStream", kind::stream}};
    static constexpr parameter out[] = {{"dstHost", kind::pointer},
                                        {"srcDevice", kind::pointer},
                                        {"ByteCount", kind::bytes},
                                        {"hStream", kind::stream}};
    static constexpr parameter sync[] = {{"hStream", kind::stream}};
    using direction = cutrace::copy_direction;
    writer_->name_function(launch_kernel, false, {"cuLaunchKernel", launch, 2, direction::unknown, -1, true});
    writer_->name_function(copy_in, false, {"cuMemcpyHtoDAsync", in, 4, direction::host_to_device, 2, true});
    writer_->name_function(copy_out, false, {"cuMemcpyDtoHAsync", out, 4, direction::device_to_host, 2, true});
    writer_->name_function(stream_synchronize, false, {"cuStreamSynchronize", sync, 1, direction::unknown, -1, false});
    writer_->name_result(false, 0, "CUDA_SUCCESS");
  }

  cutrace::event_writer* writer_ = nullptr;
  std::atomic<std::uint32_t> correlation_{1};
  std::atomic<std::uint32_t> in_flight_{0};
};

}  // namespace bench
