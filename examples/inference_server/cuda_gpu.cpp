// SPDX-License-Identifier: Apache-2.0
// The gpu interface on the CUDA driver API: device 0, its primary context, one module. The CUDA runtime is not used.
#include <array>

#include "cuda_driver.hpp"
#include "devices.hpp"
#include "kernel_image.hpp"
#include "kernels.hpp"

namespace server {
namespace {

// cutrace's stand-in for libcuda accepts every call and every module, and calls its device this.
constexpr const char* stand_in_name = "cutrace simulated GPU";

/// Throws on a failed call of the driver, with the function's name: CUTRACE_SERVER_CALL(cuMemAlloc, &p, bytes).
#define CUTRACE_SERVER_CALL(function, ...) driver_.check(driver_.function(__VA_ARGS__), #function)

class primary_context {
 public:
  explicit primary_context(const cuda_driver& driver) : driver_(driver) {
    int devices = 0;
    CUTRACE_SERVER_CALL(cuDeviceGetCount, &devices);
    if (devices == 0) throw std::runtime_error("the CUDA driver sees no device");
    CUTRACE_SERVER_CALL(cuDeviceGet, &device_, 0);
    char text[128] = "";
    CUTRACE_SERVER_CALL(cuDeviceGetName, text, static_cast<int>(sizeof(text)), device_);
    name_ = text;
    CUTRACE_SERVER_CALL(cuDevicePrimaryCtxRetain, &context_, device_);
    CUTRACE_SERVER_CALL(cuCtxSetCurrent, context_);
  }
  primary_context(const primary_context&) = delete;
  primary_context& operator=(const primary_context&) = delete;
  ~primary_context() { driver_.cuDevicePrimaryCtxRelease(device_); }

  void make_current() const { CUTRACE_SERVER_CALL(cuCtxSetCurrent, context_); }
  const std::string& name() const { return name_; }

 private:
  const cuda_driver& driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::string name_;
};

class kernel_module {
 public:
  kernel_module(const cuda_driver& driver, const kernel_image& image) : driver_(driver) {
    CUTRACE_SERVER_CALL(cuModuleLoadData, &module_, image.data);
    for (std::uint32_t i = 0; i < kernel_count; ++i)
      CUTRACE_SERVER_CALL(cuModuleGetFunction, &functions_[i], module_, kernel_names[i]);
  }
  kernel_module(const kernel_module&) = delete;
  kernel_module& operator=(const kernel_module&) = delete;
  ~kernel_module() { driver_.cuModuleUnload(module_); }

  CUfunction operator[](std::uint32_t kernel) const { return functions_[kernel]; }

 private:
  const cuda_driver& driver_;
  CUmodule module_ = nullptr;
  std::array<CUfunction, kernel_count> functions_{};
};

class cuda_gpu final : public gpu {
 public:
  cuda_gpu() : context_(driver_), stand_in_(context_.name() == stand_in_name), kernels_(driver_, image()) {}

  std::string description() const override {
    return (stand_in_ ? "stand-in driver: " : "real GPU: ") + context_.name();
  }
  bool executes_kernels() const override { return !stand_in_; }
  void use_in_this_thread() override { context_.make_current(); }

  std::uint64_t allocate(std::size_t bytes) override {
    CUdeviceptr address = 0;
    CUTRACE_SERVER_CALL(cuMemAlloc, &address, bytes);
    return address;
  }
  void release(std::uint64_t address) noexcept override { driver_.cuMemFree(address); }
  void* allocate_pinned(std::size_t bytes) override {
    void* memory = nullptr;
    CUTRACE_SERVER_CALL(cuMemHostAlloc, &memory, bytes, 0u);
    return memory;
  }
  void release_pinned(void* memory) noexcept override { driver_.cuMemFreeHost(memory); }

  stream_handle open_stream() override {
    CUstream s = nullptr;
    CUTRACE_SERVER_CALL(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
    return s;
  }
  void close_stream(stream_handle s) noexcept override { driver_.cuStreamDestroy(stream(s)); }
  void synchronize(stream_handle s) override { CUTRACE_SERVER_CALL(cuStreamSynchronize, stream(s)); }

  void copy_to_device(stream_handle s, std::uint64_t to, const void* from, std::size_t bytes) override {
    CUTRACE_SERVER_CALL(cuMemcpyHtoDAsync, to, from, bytes, stream(s));
  }
  void copy_to_host(stream_handle s, void* to, std::uint64_t from, std::size_t bytes) override {
    CUTRACE_SERVER_CALL(cuMemcpyDtoHAsync, to, from, bytes, stream(s));
  }
  void copy_on_device(stream_handle s, std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    CUTRACE_SERVER_CALL(cuMemcpyDtoDAsync, to, from, bytes, stream(s));
  }
  void clear(stream_handle s, std::uint64_t address, std::size_t bytes) override {
    CUTRACE_SERVER_CALL(cuMemsetD8Async, address, static_cast<unsigned char>(0), bytes, stream(s));
  }
  void launch(stream_handle s, std::uint32_t kernel, std::uint32_t blocks, std::uint32_t threads, void** parameters,
              std::uint32_t) override {
    CUTRACE_SERVER_CALL(cuLaunchKernel, kernels_[kernel], blocks, 1u, 1u, threads, 1u, 1u, 0u, stream(s), parameters,
                        nullptr);
  }

  void begin_capture(stream_handle s) override {
    // Thread-local: what other workers do meanwhile must not break this capture.
    CUTRACE_SERVER_CALL(cuStreamBeginCapture, stream(s), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  }
  graph_handle end_capture(stream_handle s) override {
    CUgraph recorded = nullptr;
    CUTRACE_SERVER_CALL(cuStreamEndCapture, stream(s), &recorded);
    CUgraphExec ready = nullptr;
    const CUresult result = driver_.cuGraphInstantiateWithFlags(&ready, recorded, 0);
    driver_.cuGraphDestroy(recorded);
    driver_.check(result, "cuGraphInstantiateWithFlags");
    return ready;
  }
  void launch_graph(stream_handle s, graph_handle g) override {
    CUTRACE_SERVER_CALL(cuGraphLaunch, static_cast<CUgraphExec>(g), stream(s));
  }
  void release_graph(graph_handle g) noexcept override { driver_.cuGraphExecDestroy(static_cast<CUgraphExec>(g)); }

 private:
  static CUstream stream(stream_handle s) { return static_cast<CUstream>(s); }

  kernel_image image() const {
    const kernel_image i = embedded_kernels();
    if (i.size == 0 && !stand_in_)
      throw std::runtime_error("this build holds no kernels, because nvcc was missing: build it with the CUDA toolkit");
    return i;
  }

  cuda_driver driver_;
  primary_context context_;
  bool stand_in_;
  kernel_module kernels_;
};

#undef CUTRACE_SERVER_CALL

}  // namespace

std::unique_ptr<gpu> open_cuda_gpu() { return std::make_unique<cuda_gpu>(); }

}  // namespace server
