// SPDX-License-Identifier: Apache-2.0
// The backend of a session for programs that work on a simulated GPU (gpu.hpp): no CUDA, no driver, no hardware.
//
//   cutrace::sim::gpu gpu;
//   cutrace::sim::sim_backend backend(gpu);
//   session.add_backend(backend);
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cutrace/backend.hpp>
#include <cutrace/sim/gpu.hpp>
#include <thread>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

class sim_backend : public backend {
 public:
  /// `g` must outlive the backend. One session at a time.
  explicit sim_backend(gpu& g = default_gpu()) : gpu_(g) {}
  ~sim_backend() override { gone(); }

  const char* name() const noexcept override { return "sim"; }

  backend_status start(event_writer& w) override {
    gone();
    writer_ = &w;
    gpu_.records().attach(w);
    gpu_.record_descriptions();
    backend_status s{};
    s.active = true;
    const options& o = gpu_.model().settings();
    std::snprintf(s.detail, sizeof s.detail, "simulated GPU, %u multiprocessors, seed %llu", o.multiprocessors,
                  static_cast<unsigned long long>(o.seed));
    return s;
  }

  /// Reports all work that has ended by now, which never takes long.
  bool flush(std::uint32_t) noexcept override {
    try {
      gpu_.records().report();
      return true;
    } catch (...) {  // no memory for the list of finished works: they stay
      return false;
    }
  }

  /// Waits up to the deadline for works that still run; the others are reported as unfinished.
  bool stop(std::uint32_t deadline_ms) noexcept override {
    if (writer_ == nullptr) return true;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms);
    std::size_t left = 0;
    try {
      while ((left = gpu_.records().report()) != 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    } catch (...) {
      left = 1;
    }
    gpu_.records().record_unfinished();
    gone();
    return left == 0;
  }

  void pause() noexcept override { gpu_.records().set_paused(true); }
  void resume() noexcept override { gpu_.records().set_paused(false); }
  void suspend() noexcept override { gpu_.records().set_suspended(true); }
  void restart() noexcept override { gpu_.records().set_suspended(false); }

 private:
  void gone() noexcept {
    if (writer_ != nullptr) gpu_.records().detach();
    writer_ = nullptr;
  }

  gpu& gpu_;
  event_writer* writer_ = nullptr;
};

}  // namespace sim
CUTRACE_END_NAMESPACE
