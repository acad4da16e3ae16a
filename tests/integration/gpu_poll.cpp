// SPDX-License-Identifier: Apache-2.0
// How a session comes by the records that CUPTI keeps in a buffer which is not full: it polls its backend, and the
// backend of CUPTI asks for them when they are old enough, and not before.
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cutrace/cupti/cupti_backend.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/memory.hpp>
#include <string>
#include <thread>

#include "../support/gpu_program.hpp"

namespace {

using test_support::failures;
using test_support::tell;

/// The backend of CUPTI, with the age that the test says in place of the session's.
class aged_backend final : public cutrace::backend {
 public:
  const char* name() const noexcept override { return inner_.name(); }
  cutrace::backend_status start(cutrace::event_writer& w) override { return inner_.start(w); }
  bool flush(std::uint32_t deadline_ms) noexcept override { return inner_.flush(deadline_ms); }
  bool stop(std::uint32_t deadline_ms) noexcept override { return inner_.stop(deadline_ms); }
  bool poll(std::uint32_t age_ms, std::uint32_t deadline_ms) noexcept override {
    asked_ms = age_ms;
    const bool done = inner_.poll(told_ms, deadline_ms);
    ++polls;
    return done;
  }
  std::atomic<std::uint32_t> told_ms{3600000}, asked_ms{0}, polls{0};

 private:
  cutrace::cupti::cupti_backend inner_{cutrace::cupti::options::from_environment()};
};

std::atomic<std::uint32_t> flushes{0};
decltype(&cuptiActivityFlushAll) real_flush = nullptr;
CUptiResult CUPTIAPI counted_flush(std::uint32_t flags) {
  ++flushes;
  return real_flush(flags);
}

template <class Condition>
bool within_a_minute(Condition holds) {
  for (int i = 0; i < 60000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return holds();
}

std::size_t kernels(const cutrace::memory_sink& sink) {
  std::size_t n = 0;
  for (const cutrace::event& e : sink.events()) n += e.kind == cutrace::event_kind::kernel;
  return n;
}

}  // namespace

int main() {
  cutrace::session_options o;
  o.sinks = "null";
  o.backend = "none";
  o.window_ms = 100;
  cutrace::session trace(o);
  aged_backend backend;
  trace.add_backend(backend);
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  auto& entry = cutrace::cupti::process_state::get().api.cuptiActivityFlushAll;
  real_flush = entry;
  entry = &counted_flush;

  const test_support::gpu_device gpu;
  CUstream stream{};
  DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  gpu.launch(stream, 3);
  DO(cuStreamSynchronize, stream);
  const std::uint32_t before = backend.polls;
  const bool polled = within_a_minute([&] { return backend.polls >= before + 15; });
  tell(polled && backend.asked_ms == 30, "a backend is polled for what is three tenths of the window old",
       std::to_string(backend.asked_ms) + " ms");
  tell(flushes == 0, "CUPTI is not asked for buffers that are younger", std::to_string(flushes) + " flushes");
  tell(kernels(sink) == 0, "and keeps what is in them", std::to_string(kernels(sink)) + " kernels");

  backend.told_ms = 1;
  const bool came = within_a_minute([&] { return kernels(sink) == 3; });
  tell(came && flushes != 0, "older ones are asked for", std::to_string(kernels(sink)) + " kernels");

  backend.told_ms = 3600000;
  const std::uint32_t asked = flushes;
  gpu.launch(stream, 2);
  DO(cuStreamSynchronize, stream);
  tell(trace.flush() && flushes > asked && within_a_minute([&] { return kernels(sink) == 5; }),
       "a flush of the session asks for all", std::to_string(kernels(sink)) + " kernels");
  trace.stop();
  entry = real_flush;
  return failures;
}
