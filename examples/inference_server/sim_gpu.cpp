// SPDX-License-Identifier: Apache-2.0
// The gpu interface on cutrace's simulated GPU: no CUDA, no driver. Copies move bytes, kernels only take time.
#include <cstdlib>
#include <cutrace/sim/sim_backend.hpp>
#include <new>
#include <stdexcept>
#include <string>

#include "devices.hpp"
#include "kernels.hpp"

namespace server {
namespace {

namespace sim = cutrace::sim;

class sim_gpu final : public gpu {
 public:
  std::string description() const override { return "simulated GPU"; }
  bool executes_kernels() const override { return false; }
  void attach(cutrace::session& s) override { s.add_backend(backend_); }
  void use_in_this_thread() override {}

  std::uint64_t allocate(std::size_t bytes) override {
    const std::uint64_t address = gpu_.allocate(bytes);
    if (address == 0) throw std::runtime_error("the simulated GPU is out of memory");
    return address;
  }
  void release(std::uint64_t address) noexcept override { gpu_.free(address); }
  void* allocate_pinned(std::size_t bytes) override {
    void* memory = std::malloc(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    gpu_.model().pin(memory, bytes);
    return memory;
  }
  void release_pinned(void* memory) noexcept override {
    gpu_.model().unpin(memory);
    std::free(memory);
  }

  stream_handle open_stream() override { return &gpu_.create_stream(); }
  void close_stream(stream_handle s) noexcept override { gpu_.destroy_stream(stream(s)); }
  void synchronize(stream_handle s) override { check(gpu_.synchronize(stream(s)), "synchronize"); }

  void copy_to_device(stream_handle s, std::uint64_t to, const void* from, std::size_t bytes) override {
    check(gpu_.copy_in(stream(s), to, from, bytes), "copy to the device");
  }
  void copy_to_host(stream_handle s, void* to, std::uint64_t from, std::size_t bytes) override {
    check(gpu_.copy_out(stream(s), to, from, bytes), "copy to the host");
  }
  void copy_on_device(stream_handle s, std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    check(gpu_.copy_within(stream(s), to, from, bytes), "copy on the device");
  }
  void clear(stream_handle s, std::uint64_t address, std::size_t bytes) override {
    check(gpu_.set(stream(s), address, 0, bytes), "clear");
  }
  void launch(stream_handle s, std::uint32_t kernel, std::uint32_t blocks, std::uint32_t threads, void**,
              std::uint32_t) override {
    check(gpu_.launch(stream(s), kernel_names[kernel], {blocks, 1, 1}, {threads, 1, 1}), kernel_names[kernel]);
  }

  void begin_capture(stream_handle s) override { check(gpu_.begin_capture(stream(s)), "begin of a capture"); }
  graph_handle end_capture(stream_handle s) override {
    sim::graph* recorded = gpu_.end_capture(stream(s));
    if (recorded == nullptr) throw std::runtime_error("simulated GPU: a capture failed");
    sim::graph_exec* ready = gpu_.instantiate(*recorded);
    gpu_.destroy(*recorded);
    if (ready == nullptr) throw std::runtime_error("simulated GPU: a graph cannot be instantiated");
    return ready;
  }
  void launch_graph(stream_handle s, graph_handle g) override {
    check(gpu_.launch(*static_cast<sim::graph_exec*>(g), stream(s)), "launch of a graph");
  }
  void release_graph(graph_handle g) noexcept override { gpu_.destroy(*static_cast<sim::graph_exec*>(g)); }

 private:
  static sim::stream& stream(stream_handle s) { return *static_cast<sim::stream*>(s); }
  static void check(sim::status what, const char* call) {
    if (what != sim::status::ok)
      throw std::runtime_error(std::string("simulated GPU: ") + call + ": error " +
                               std::to_string(sim::result_code(what)));
  }

  sim::gpu gpu_;
  sim::sim_backend backend_{gpu_};
};

}  // namespace

std::unique_ptr<gpu> open_sim_gpu() { return std::make_unique<sim_gpu>(); }

}  // namespace server
