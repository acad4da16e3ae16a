// SPDX-License-Identifier: Apache-2.0
// What the server asks of a GPU, and nothing more: one interface, implemented on the CUDA driver (cuda_gpu) and on
// cutrace's simulated GPU (sim_gpu). Errors are exceptions (std::runtime_error). stream.hpp adds typed arguments and
// counts of the work, memory.hpp adds owned memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/cutrace.hpp>
#include <string>

namespace server {

class gpu {
 public:
  using stream_handle = void*;
  using graph_handle = void*;  ///< instantiated graph

  gpu() = default;
  gpu(const gpu&) = delete;
  gpu& operator=(const gpu&) = delete;
  virtual ~gpu() = default;

  /// Which GPU this is, for the first line that the program prints: "real GPU: NVIDIA H200".
  virtual std::string description() const = 0;
  /// Whether kernels really run, so that their results mean something.
  virtual bool executes_kernels() const = 0;
  /// Adds the source of GPU records to the session where that is not the session's own default.
  virtual void attach(cutrace::session&) {}
  /// Each thread calls this before anything below.
  virtual void use_in_this_thread() = 0;

  virtual std::uint64_t allocate(std::size_t bytes) = 0;  ///< contents are undefined
  virtual void release(std::uint64_t address) noexcept = 0;
  virtual void* allocate_pinned(std::size_t bytes) = 0;  ///< host memory that copies need no staging buffer for
  virtual void release_pinned(void* memory) noexcept = 0;

  virtual stream_handle open_stream() = 0;
  virtual void close_stream(stream_handle) noexcept = 0;
  virtual void synchronize(stream_handle) = 0;

  // Work, in the order of its stream. Host memory must stay as it is until the stream has been synchronised.
  virtual void copy_to_device(stream_handle, std::uint64_t to, const void* from, std::size_t bytes) = 0;
  virtual void copy_to_host(stream_handle, void* to, std::uint64_t from, std::size_t bytes) = 0;
  virtual void copy_on_device(stream_handle, std::uint64_t to, std::uint64_t from, std::size_t bytes) = 0;
  virtual void clear(stream_handle, std::uint64_t address, std::size_t bytes) = 0;  ///< to zeros
  /// `parameters`: addresses of the kernel's arguments, read before the call returns.
  virtual void launch(stream_handle, std::uint32_t kernel, std::uint32_t blocks, std::uint32_t threads,
                      void** parameters, std::uint32_t parameter_count) = 0;

  /// Between the two calls, work of the stream is recorded instead of done.
  virtual void begin_capture(stream_handle) = 0;
  virtual graph_handle end_capture(stream_handle) = 0;
  virtual void launch_graph(stream_handle, graph_handle) = 0;
  virtual void release_graph(graph_handle) noexcept = 0;
};

}  // namespace server
