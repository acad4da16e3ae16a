// SPDX-License-Identifier: Apache-2.0
// A stream of the GPU, and graphs captured from it: typed arguments in, one call of the gpu out, and a count of each
// piece of work. One thread uses a stream at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "counters.hpp"
#include "gpu.hpp"
#include "kernels.hpp"

namespace server {

/// A captured graph, ready to be launched any number of times.
class graph {
 public:
  graph() = default;
  graph(gpu& owner, gpu::graph_handle handle, const gpu_work& nodes) : gpu_(&owner), handle_(handle), nodes_(nodes) {}
  graph(graph&& o) noexcept { swap(o); }
  graph& operator=(graph&& o) noexcept {
    swap(o);
    return *this;
  }
  ~graph() {
    if (gpu_ != nullptr) gpu_->release_graph(handle_);
  }
  explicit operator bool() const { return gpu_ != nullptr; }

 private:
  friend class stream;
  void swap(graph& o) noexcept {
    std::swap(gpu_, o.gpu_);
    std::swap(handle_, o.handle_);
    std::swap(nodes_, o.nodes_);
  }
  gpu* gpu_ = nullptr;
  gpu::graph_handle handle_ = nullptr;
  gpu_work nodes_;  ///< what one replay does
};

class stream {
 public:
  explicit stream(gpu& owner) : gpu_(owner), handle_(owner.open_stream()) {}
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() { gpu_.close_stream(handle_); }

  template <class T>
  void upload(device_pointer<T> to, const T* from, std::size_t n) {
    gpu_.copy_to_device(handle_, to.address, from, n * sizeof(T));
    count_->htod.add(n * sizeof(T));
  }
  template <class T>
  void download(T* to, device_pointer<T> from, std::size_t n) {
    gpu_.copy_to_host(handle_, to, from.address, n * sizeof(T));
    count_->dtoh.add(n * sizeof(T));
  }
  template <class T>
  void copy(device_pointer<T> to, device_pointer<T> from, std::size_t n) {
    gpu_.copy_on_device(handle_, to.address, from.address, n * sizeof(T));
    count_->dtod.add(n * sizeof(T));
  }
  template <class T>
  void clear(device_pointer<T> at, std::size_t n) {
    gpu_.clear(handle_, at.address, n * sizeof(T));
    count_->memset.add(n * sizeof(T));
  }

  /// One thread for each of `elements`, which must be at least 1.
  template <class... Parameters>
  void launch(kernel<Parameters...> k, int elements, typename std::common_type<Parameters>::type... arguments) {
    constexpr std::uint32_t threads = 128;
    std::array<void*, sizeof...(Parameters)> addresses = {static_cast<void*>(&arguments)...};
    gpu_.launch(handle_, k.index, (static_cast<std::uint32_t>(elements) + threads - 1) / threads, threads,
                addresses.data(), sizeof...(Parameters));
    ++count_->kernels;
  }

  void begin_capture() {
    gpu_.begin_capture(handle_);
    captured_ = {};
    count_ = &captured_;
  }
  graph end_capture() {
    count_ = &done_;
    return graph(gpu_, gpu_.end_capture(handle_), captured_);
  }
  void launch(const graph& g) {
    gpu_.launch_graph(handle_, g.handle_);
    done_ += g.nodes_;
    ++done_.graph_launches;
    done_.kernels_in_graphs += g.nodes_.kernels;
    done_.copies_in_graphs += g.nodes_.htod.count + g.nodes_.dtoh.count + g.nodes_.dtod.count;
  }

  void synchronize() { gpu_.synchronize(handle_); }
  const gpu_work& counted() const { return done_; }

 private:
  gpu& gpu_;
  gpu::stream_handle handle_;
  gpu_work done_;
  gpu_work captured_;
  gpu_work* count_ = &done_;  ///< `captured_` while capturing: recorded work is not done yet
};

}  // namespace server
