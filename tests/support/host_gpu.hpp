// SPDX-License-Identifier: Apache-2.0
// The inference server's kernels, executed on the CPU behind the server's own gpu interface: what the batches, the
// cache and the kernels compute can be tested without a GPU. Work is done at once; capture keeps it for later.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../examples/inference_server/exponential.hpp"
#include "../../examples/inference_server/gpu.hpp"
#include "../../examples/inference_server/kernels.hpp"
#include "cuda_on_host.hpp"

namespace host_kernels {
#include "../../examples/inference_server/kernels.cu"  // NOLINT(bugprone-suspicious-include)
}  // namespace host_kernels

namespace test_support {

/// True where a parameter that the server passes has the type that the kernel takes.
template <class Passed, class Taken>
struct same_parameter : std::is_same<Passed, Taken> {};
template <class T, class Taken>
struct same_parameter<server::device_pointer<T>, Taken*> : std::is_same<T, std::remove_const_t<Taken>> {};

/// A kernel of the host, ready to be given blocks, threads and untyped parameters.
struct host_kernel {
  const char* name;
  std::uint32_t parameter_count;
  std::function<std::function<void()>(std::uint32_t, std::uint32_t, void**)> bind;
};

template <class... Taken, std::size_t... Index>
std::function<void()> bind_kernel(void (*function)(Taken...), std::uint32_t blocks, std::uint32_t threads,
                                  void** parameters, std::index_sequence<Index...>) {
  const std::tuple<Taken...> values{*static_cast<Taken*>(parameters[Index])...};
  return [=] {
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
      for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) std::apply(function, values);
  };
}

template <class... Passed, class... Taken>
host_kernel describe(const char* name, server::kernel<Passed...>, void (*function)(Taken...)) {
  static_assert(sizeof...(Passed) == sizeof...(Taken), "kernels.hpp and kernels.cu differ in the number of parameters");
  static_assert(std::conjunction<same_parameter<Passed, Taken>...>::value,
                "kernels.hpp and kernels.cu differ in a type");
  return {name, sizeof...(Taken), [function](std::uint32_t blocks, std::uint32_t threads, void** parameters) {
            return bind_kernel(function, blocks, threads, parameters, std::index_sequence_for<Taken...>{});
          }};
}

/// In the order of kernels.hpp.
inline const std::vector<host_kernel>& all_host_kernels() {
  namespace k = server::kernels;
  static const std::vector<host_kernel> all = {
      describe("embed", k::embed, host_kernels::embed),
      describe("rms_norm", k::rms_norm, host_kernels::rms_norm),
      describe("matmul", k::matmul, host_kernels::matmul),
      describe("store_cache", k::store_cache, host_kernels::store_cache),
      describe("attention_scores", k::attention_scores, host_kernels::attention_scores),
      describe("attention_softmax", k::attention_softmax, host_kernels::attention_softmax),
      describe("attention_mix", k::attention_mix, host_kernels::attention_mix),
      describe("residual_add", k::residual_add, host_kernels::residual_add),
      describe("silu", k::silu, host_kernels::silu),
      describe("argmax", k::argmax, host_kernels::argmax),
  };
  return all;
}

class host_gpu final : public server::gpu {
 public:
  std::string description() const override { return "kernels on the host"; }
  bool executes_kernels() const override { return true; }
  void use_in_this_thread() override {}

  /// Filled with a pattern: real memory is not zero either.
  std::uint64_t allocate(std::size_t bytes) override {
    void* memory = std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0x7f, bytes);
    return reinterpret_cast<std::uint64_t>(memory);
  }
  void release(std::uint64_t address) noexcept override { std::free(pointer(address)); }
  void* allocate_pinned(std::size_t bytes) override { return pointer(allocate(bytes)); }
  void release_pinned(void* memory) noexcept override { std::free(memory); }

  stream_handle open_stream() override { return new host_stream; }
  void close_stream(stream_handle s) noexcept override { delete static_cast<host_stream*>(s); }
  void synchronize(stream_handle s) override {
    if (static_cast<host_stream*>(s)->capturing) throw std::runtime_error("synchronised while capturing");
  }

  void copy_to_device(stream_handle s, std::uint64_t to, const void* from, std::size_t bytes) override {
    submit(s, [=] { std::memcpy(pointer(to), from, bytes); });
  }
  void copy_to_host(stream_handle s, void* to, std::uint64_t from, std::size_t bytes) override {
    submit(s, [=] { std::memcpy(to, pointer(from), bytes); });
  }
  void copy_on_device(stream_handle s, std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    submit(s, [=] { std::memcpy(pointer(to), pointer(from), bytes); });
  }
  void clear(stream_handle s, std::uint64_t address, std::size_t bytes) override {
    submit(s, [=] { std::memset(pointer(address), 0, bytes); });
  }
  void launch(stream_handle s, std::uint32_t kernel, std::uint32_t blocks, std::uint32_t threads, void** parameters,
              std::uint32_t parameter_count) override {
    const host_kernel& k = all_host_kernels().at(kernel);
    if (k.parameter_count != parameter_count) throw std::runtime_error("wrong number of parameters");
    submit(s, k.bind(blocks, threads, parameters));
  }

  void begin_capture(stream_handle s) override { static_cast<host_stream*>(s)->capturing = true; }
  graph_handle end_capture(stream_handle s) override {
    auto* h = static_cast<host_stream*>(s);
    h->capturing = false;
    return new std::vector<std::function<void()>>(std::exchange(h->recorded, {}));
  }
  void launch_graph(stream_handle s, graph_handle g) override {
    for (const auto& work : *static_cast<std::vector<std::function<void()>>*>(g)) submit(s, work);
  }
  void release_graph(graph_handle g) noexcept override { delete static_cast<std::vector<std::function<void()>>*>(g); }

 private:
  struct host_stream {
    bool capturing = false;
    std::vector<std::function<void()>> recorded;
  };
  static void* pointer(std::uint64_t address) {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));  // NOLINT(performance-no-int-to-ptr)
  }
  static void submit(stream_handle s, const std::function<void()>& work) {
    auto* h = static_cast<host_stream*>(s);
    if (h->capturing)
      h->recorded.push_back(work);
    else
      work();
  }
};

}  // namespace test_support
