// SPDX-License-Identifier: Apache-2.0
// How a running session obtains the records that CUPTI keeps: by a plain flush each period while CUPTI has a buffer, by
// a forced flush only on request, after a fatal error, and where unfinished work holds back too much memory. A forced
// flush delivers unfinished work without times; all other work has its times.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cutrace/cupti/cupti_backend.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/names.hpp>
#include <cutrace/sinks/memory.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../support/gpu_program.hpp"

extern "C" int cutrace_sim_set_faults(const char* text);
extern "C" void cutrace_sim_set_kernel_duration(const char* name, unsigned long long ns);

namespace {

using cutrace::event;
using cutrace::event_kind;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test_support::failures;
using test_support::report;

/// Another thread that hands a buffer back, of CUPTI or the program: it begins with the next flush while `armed`.
struct handing_back {
  std::atomic<bool> armed{false}, done{false};
  std::thread thread;

  void begin() {
    std::atomic<std::uint32_t>& handing = cutrace::cupti::process_state::get().completing;
    handing.fetch_add(1);
    thread = std::thread([this, &handing] {
      std::this_thread::sleep_for(milliseconds(60));
      done = true;
      handing.fetch_sub(1);
    });
  }
};
handing_back other_thread;

std::atomic<std::uint32_t> plain_flushes{0}, forced_flushes{0};
decltype(&cuptiActivityFlushAll) real_flush = nullptr;
CUptiResult CUPTIAPI counted_flush(std::uint32_t flags) {
  ++((flags & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0 ? forced_flushes : plain_flushes);
  if (other_thread.armed.exchange(false)) other_thread.begin();
  return real_flush(flags);
}

/// The backend of CUPTI, whose flushes are counted.
class counted_backend final : public cutrace::backend {
 public:
  const char* name() const noexcept override { return inner_.name(); }
  cutrace::backend_status start(cutrace::event_writer& w) override {
    const cutrace::backend_status status = inner_.start(w);
    auto& entry = cutrace::cupti::process_state::get().api.cuptiActivityFlushAll;
    if (entry != &counted_flush) real_flush = entry;
    entry = &counted_flush;
    plain_flushes = forced_flushes = 0;
    return status;
  }
  bool flush(std::uint32_t deadline_ms) noexcept override { return inner_.flush(deadline_ms); }
  bool flush_unfinished(std::uint32_t deadline_ms) noexcept override { return inner_.flush_unfinished(deadline_ms); }
  bool poll(std::uint32_t period_ms, std::uint32_t deadline_ms) noexcept override {
    return inner_.poll(period_ms, deadline_ms);
  }
  bool stop(std::uint32_t deadline_ms) noexcept override { return inner_.stop(deadline_ms); }

 private:
  cutrace::cupti::cupti_backend inner_;
};

template <class Condition>
bool within(milliseconds limit, Condition holds) {
  const auto until = steady_clock::now() + limit;
  while (!holds() && steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
  return holds();
}

struct traced {
  cutrace::session session;
  cutrace::memory_sink& sink;

  static cutrace::session_options options(std::size_t memory, std::uint32_t period_ms, std::uint32_t window_ms) {
    cutrace::session_options o;
    o.sinks = "null";
    o.backend = "none";
    o.memory_limit_bytes = memory;
    o.window_ms = window_ms;
    o.flush_period_ms = period_ms;
    return o;
  }
  traced(counted_backend& backend, std::size_t memory, std::uint32_t period_ms, std::uint32_t window_ms)
      : session(options(memory, period_ms, window_ms)), sink(session.emplace_sink<cutrace::memory_sink>()) {
    session.add_backend(backend);
  }
  std::vector<event> kernels() const {
    std::vector<event> all;
    for (const event& e : sink.events())
      if (e.kind == event_kind::kernel) all.push_back(e);
    return all;
  }
};

CUstream make_stream() {
  CUstream s{};
  DO(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
  return s;
}

std::string count(std::size_t n, const char* what) { return std::to_string(n) + " " + what; }

void idle(const test_support::gpu_device& gpu) {
  counted_backend backend;
  traced t(backend, 0, 20, 100);
  const CUstream stream = make_stream();
  gpu.launch(stream, 3);
  DO(cuStreamSynchronize, stream);
  const bool came = within(milliseconds(60000), [&] { return t.kernels().size() == 3; });
  report(came, "records come without being asked for", count(t.kernels().size(), "kernels"));
  std::this_thread::sleep_for(milliseconds(200));
  const std::uint32_t before = plain_flushes;
  std::this_thread::sleep_for(milliseconds(500));
  report(plain_flushes == before, "CUPTI is left alone while it has no buffer",
         count(plain_flushes - before, "flushes in half a second"));
  report(forced_flushes == 0, "and never asked by force", count(forced_flushes, "forced flushes"));
  gpu.launch(stream, 2);
  DO(cuStreamSynchronize, stream);
  const bool flushed = t.session.flush() && within(milliseconds(60000), [&] { return t.kernels().size() == 5; });
  report(flushed, "a flush of the session asks for all", count(t.kernels().size(), "kernels"));
  t.session.stop();
}

void handed_back_meanwhile(const test_support::gpu_device& gpu) {
  counted_backend backend;
  traced t(backend, 0, 10000, 60000);  // hardly a flush but the program's
  const CUstream stream = make_stream();
  gpu.launch(stream, 1);
  DO(cuStreamSynchronize, stream);
  other_thread.armed = true;
  const bool flushed = t.session.flush();
  report(flushed && other_thread.done, "a flush has the records that another thread was handing back");
  other_thread.thread.join();
  t.session.stop();
}

/// While a kernel of 2.5 s runs, its thread and another one launch short kernels.
void long_kernel(const test_support::gpu_device& gpu) {
  counted_backend backend;
  traced t(backend, 0, 20, 100);
  const CUstream busy = make_stream(), own = make_stream();
  CU(cutrace_sim_set_kernel_duration)("empty", 2500000000ull);
  gpu.launch(busy, 1);
  CU(cutrace_sim_set_kernel_duration)("empty", 10000);
  std::atomic<bool> done{false};
  double slowest_ms = 0;
  std::thread other([&] {
    gpu.use();
    const CUstream stream = make_stream();
    for (std::size_t i = 1; i <= 20; ++i) {
      gpu.launch(stream, 1);
      DO(cuStreamSynchronize, stream);
      const auto begin = steady_clock::now();
      within(milliseconds(60000), [&] { return t.kernels().size() >= i; });
      slowest_ms = std::max(slowest_ms, std::chrono::duration<double, std::milli>(steady_clock::now() - begin).count());
    }
    done = true;
  });
  std::size_t launched = 0;
  for (; !done; ++launched) {
    gpu.launch(own, 1);
    std::this_thread::sleep_for(milliseconds(10));
  }
  other.join();
  report(slowest_ms < 2000, "a long kernel does not hold up other threads' records",
         std::to_string(slowest_ms) + " ms at most");
  test_support::must(static_cast<int>(CU(cuCtxSynchronize)()), "cuCtxSynchronize");
  report(forced_flushes == 0, "a kernel that is merely long is not asked for by force",
         count(forced_flushes, "forced flushes"));
  t.session.stop();
  std::size_t timeless = 0, longest = 0;
  for (const event& e : t.kernels()) {
    timeless += e.incomplete;
    longest = std::max(longest, static_cast<std::size_t>(e.duration_ns()));
  }
  report(t.kernels().size() == launched + 21 && timeless == 0 && longest >= 2499000000u,
         "all of them have their times, the long one too",
         count(t.kernels().size(), "kernels of ") + count(launched + 21, "launched, ") +
             count(timeless, "without times, the longest ") + count(longest, "ns"));
}

/// Beside a kernel of 4 s its thread launches more than there is memory for.
void held_back(const test_support::gpu_device& gpu) {
  counted_backend backend;
  traced t(backend, std::size_t{8} << 20, 20, 100);
  const CUstream busy = make_stream(), own = make_stream();
  CU(cutrace_sim_set_kernel_duration)("empty", 4000000000ull);
  {
    CUTRACE_STAGE("endless", 77);
    gpu.launch(busy, 1);
  }
  CU(cutrace_sim_set_kernel_duration)("empty", 1000);
  std::size_t launched = 0;
  const auto begin = steady_clock::now();
  for (; steady_clock::now() - begin < milliseconds(3000); ++launched) {
    gpu.launch(own, 1);
    std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
  report(forced_flushes >= 1 && forced_flushes <= 4,
         "too much memory that is held back is asked for by force, once a second",
         count(forced_flushes, "forced flushes of ") + count(launched, "launches"));
  DO(cuStreamSynchronize, own);
  const std::uint32_t forced = forced_flushes;
  DO(cuStreamSynchronize, busy);
  {
    CUTRACE_STAGE("after", 78);
    gpu.launch(busy, 1);
  }
  test_support::must(static_cast<int>(CU(cuCtxSynchronize)()), "cuCtxSynchronize");
  t.session.stop();
  const cutrace::stats s = t.session.stats();
  report(s.lost_total() == 0, "nothing is lost by it", count(s.lost_total(), "lost"));
  std::size_t timeless = 0;
  const event* endless = nullptr;  // of `all`
  std::int64_t next = 0;
  const std::vector<event> all = t.kernels();
  for (const event& e : all) {
    timeless += e.incomplete;
    const std::string stage(e.stage_name.data, e.stage_name.size);
    if (stage == "endless") endless = &e;
    if (stage == "after") next = e.start_ns;
  }
  report(all.size() == launched + 2 && timeless >= 1 && timeless <= 1 + forced,
         "only what ran at that instant is without times", count(timeless, "without times"));
  report(s.quality_of[static_cast<std::size_t>(cutrace::quality::incomplete)] == timeless, "which is counted");
  const bool known = endless != nullptr && endless->incomplete && endless->request_count == 1 &&
                     endless->requests[0].id == 77 && endless->start_ns == endless->call_start_ns;
  report(known, "the kernel that held them back is known by call, stage and request");
  report(known && endless->duration_ns() >= 3999000000 && endless->end_ns <= next,
         "and lasts at most until a wait for it has returned",
         std::to_string(known ? endless->duration_ns() / 1000000 : 0) + " ms");
}

/// The program asks for unfinished work (flush_unfinished).
void asked_for(const test_support::gpu_device& gpu) {
  counted_backend backend;
  traced t(backend, 0, 20, 100);
  const CUstream busy = make_stream();
  CU(cutrace_sim_set_kernel_duration)("empty", 1500000000ull);
  {
    CUTRACE_STAGE("hanging", 80);
    gpu.launch(busy, 1);
  }
  CU(cutrace_sim_set_kernel_duration)("empty", 1000);
  const bool flushed = t.session.flush();
  report(flushed && forced_flushes == 0, "an ordinary flush does not ask for unfinished work");
  const bool forced = t.session.flush_unfinished();
  const std::uint32_t plain = plain_flushes;
  const bool again = t.session.flush_unfinished();
  report(forced && again && forced_flushes == 1 && plain_flushes > plain,
         "the program asks for it, once a second at most, and plainly in between",
         count(forced_flushes, "forced flushes"));
  DO(cuStreamSynchronize, busy);
  gpu.launch(busy, 1);
  DO(cuStreamSynchronize, busy);
  t.session.stop();
  const std::vector<event> all = t.kernels();
  const auto hanging = std::find_if(all.begin(), all.end(), [](const event& e) { return e.incomplete; });
  const bool known = all.size() == 2 && hanging != all.end() && hanging->request_count == 1 &&
                     hanging->requests[0].id == 80 && hanging->duration_ns() >= 1499000000;
  report(known, "and gets it without times, but with its stage and requests", count(all.size(), "kernels"));
}

/// The program has asked for unfinished work a moment before work is launched that hangs.
void asked_before_a_hang(const test_support::gpu_device& gpu) {
  counted_backend backend;
  cutrace::session_options o = traced::options(0, 20, 100);
  std::atomic<int> alarms{0};
  o.watchdog = "300ms";
  o.on_alarm = [](const char*, void* to) { ++*static_cast<std::atomic<int>*>(to); };
  o.on_alarm_user = &alarms;
  cutrace::session session(o);
  session.add_backend(backend);
  const CUstream hangs = make_stream();
  CU(cutrace_sim_set_kernel_duration)("empty", 2500000000ull);
  const bool asked = session.flush_unfinished();
  gpu.launch(hangs, 1);
  const bool noticed = within(milliseconds(2000), [&] { return alarms != 0; });
  report(asked && noticed, "a hang is noticed although the program has just asked for unfinished work");
  CU(cutrace_sim_set_kernel_duration)("empty", 1000);
  DO(cuStreamSynchronize, hangs);
  session.stop();
}

/// Beside a kernel of 1.5 s another thread makes more calls than the correlation ring (from ids to calls) holds.
void overtaken(const test_support::gpu_device& gpu) {
  counted_backend backend;
  traced t(backend, std::size_t{1} << 20, 20, 100);  // a ring of 4,096 calls
  const CUstream busy = make_stream();
  CU(cutrace_sim_set_kernel_duration)("empty", 1500000000ull);
  {
    CUTRACE_STAGE("long", 79);
    gpu.launch(busy, 1);
  }
  CU(cutrace_sim_set_kernel_duration)("empty", 1000);
  std::thread([&] {
    gpu.use();
    const CUstream stream = make_stream();
    for (int i = 0; i < 20000; ++i) {
      gpu.launch(stream, 1);
      if (i % 20 == 19) DO(cuStreamSynchronize, stream);
      // Lets the collector copy the call before the ring overwrites it, however slow the machine is.
      if (i % 1000 == 999) t.session.flush();
    }
  }).join();
  DO(cuStreamSynchronize, busy);
  t.session.stop();
  const event* longest = nullptr;
  const std::vector<event> all = t.kernels();
  for (const event& e : all)
    if (longest == nullptr || e.duration_ns() > longest->duration_ns()) longest = &e;
  const bool known = longest != nullptr && longest->joined == cutrace::attribution::by_call &&
                     longest->duration_ns() >= 1499000000 && longest->request_count == 1 &&
                     longest->requests[0].id == 79;
  report(known, "a call keeps its place while its records are held back, however many others come",
         longest != nullptr ? cutrace::to_string(longest->joined) : "no kernel");
}

/// A call that returns an error which loses the context.
void fault(const test_support::gpu_device& gpu) {
  counted_backend backend;
  traced t(backend, 0, 3000, 15000);
  const CUstream stream = make_stream();
  CU(cutrace_sim_set_kernel_duration)("empty", 60000000000ull);
  gpu.launch(stream, 2);
  DO(cutrace_sim_set_faults, "cuStreamSynchronize=700");
  static_cast<void>(CU(cuStreamSynchronize)(stream));
  const bool asked = within(milliseconds(1500), [] { return forced_flushes != 0; });
  report(asked, "after a fatal error records are asked for at once", count(forced_flushes, "forced flushes"));
  DO(cutrace_sim_set_faults, "");
  t.session.stop();
  std::size_t timeless = 0;
  for (const event& e : t.kernels()) timeless += e.incomplete && e.end_ns > e.start_ns;
  report(timeless == 2, "and what was at work or behind it lasts until the end of the trace",
         count(timeless, "kernels"));
  report(t.session.stats().pending == 0 && t.session.stats().produced == t.session.stats().delivered,
         "counted to the unit");
}

}  // namespace

/// With an argument only `overtaken` runs: the first session of a process decides how large the ring is.
int main(int argc, char**) {
  const test_support::gpu_device gpu;
  if (argc > 1) {
    overtaken(gpu);
    return failures;
  }
  idle(gpu);
  handed_back_meanwhile(gpu);
  long_kernel(gpu);
  held_back(gpu);
  asked_for(gpu);
  asked_before_a_hang(gpu);
  fault(gpu);
  return failures;
}
