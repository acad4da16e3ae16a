// SPDX-License-Identifier: Apache-2.0
// Sessions that come, pause and go while a program uses its GPU. Runs on the stand-in driver in each test run and on a
// real one in tests/gpu/run; prints a line a scenario and ends with the number of those that failed. With "exit" it
// leaves its session open and ends with status 7. With "ahead" it launches three seconds of work at once, in its
// own session, with "busy" six seconds of work, one kernel after the other.
#include <cuda.h>
#include <dirent.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/memory.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../support/gpu_program.hpp"
#include "../support/sanitized.hpp"

namespace {

using test_support::failures;
using test_support::report;

struct device_work : test_support::gpu_device {
  CUstream stream{};

  device_work() { DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING); }
  void launch(int n) const { gpu_device::launch(stream, n); }
  void wait() const { DO(cuStreamSynchronize, stream); }
};

cutrace::session_options plain() {
  cutrace::session_options o;
  o.sinks = "null";
  o.backend = "cupti";
  return o;
}

struct seen {
  std::uint64_t kernels, calls, staged, unattributed;
  bool balanced;
  explicit seen(const cutrace::memory_sink& sink, const cutrace::stats& s, const std::string& stage)
      : kernels(0), calls(0), staged(0), unattributed(0), balanced(s.produced == s.delivered && s.lost_total() == 0) {
    for (const cutrace::event& e : sink.events()) {
      if (e.kind == cutrace::event_kind::api) calls += std::string(e.name.data) == "cuLaunchKernel" ? 1 : 0;
      if (e.kind != cutrace::event_kind::kernel) continue;
      ++kernels;
      staged += stage == std::string(e.stage_name.data, e.stage_name.size) ? 1 : 0;
      unattributed +=
          e.joined == cutrace::attribution::no_callback || e.joined == cutrace::attribution::expired ? 1 : 0;
    }
  }
  std::string text() const {
    return std::to_string(calls) + " launches, " + std::to_string(kernels) + " kernels, " + std::to_string(staged) +
           " with their stage, " + std::to_string(unattributed) + " without a call" +
           (balanced ? "" : ", NOT BALANCED");
  }
};

void paused(device_work& gpu) {
  cutrace::session trace(plain());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  {
    CUTRACE_STAGE("seen");
    gpu.launch(100);
    trace.pause();
    gpu.launch(50);
    gpu.wait();
    trace.resume();
    gpu.launch(25);
  }
  gpu.wait();
  trace.stop();
  const seen s(sink, trace.stats(), "seen");
  report(s.calls == 125 && s.kernels == 125 && s.staged == 125 && s.balanced, "100 launches, 50 paused, 25", s.text());
}

void one_after_another(device_work& gpu) {
  CUTRACE_STAGE("none runs yet");
  std::string found;
  bool ok = true;
  cutrace::session* trace = new cutrace::session(plain());
  CUTRACE_STAGE("server", 5);
  for (int round = 0; round < 4; ++round) {
    cutrace::memory_sink& sink = trace->emplace_sink<cutrace::memory_sink>();
    gpu.launch(20);
    gpu.wait();
    trace->stop();
    const seen s(sink, trace->stats(), "server");
    ok = ok && s.calls == 20 && s.kernels == 20 && s.staged == 20 && s.balanced;
    found = s.text();
    delete trace;
    gpu.launch(30);  // belongs to none
    gpu.wait();
    trace = new cutrace::session(plain());
  }
  delete trace;
  report(ok, "four sessions inside one stage, 20 launches in each and 30 after each", found);
}

/// What a trace says of devices, contexts and streams: a session that begins late must describe them as one that began
/// before CUDA did.
struct descriptions {
  std::vector<cutrace::event> devices, contexts, streams;
  explicit descriptions(const cutrace::memory_sink& sink) {
    for (const cutrace::event& e : sink.events()) {
      if (e.kind == cutrace::event_kind::device) devices.push_back(e);
      if (e.kind == cutrace::event_kind::context) contexts.push_back(e);
      if (e.kind == cutrace::event_kind::stream) streams.push_back(e);
    }
  }
};

bool same_device(const cutrace::event& a, const cutrace::event& b) {
  const cutrace::device_data &x = a.device_, &y = b.device_;
  return a.device == b.device && std::string(a.name.data) == b.name.data && x.memory_bytes == y.memory_bytes &&
         x.memory_bandwidth_bytes_per_s / 1000000 == y.memory_bandwidth_bytes_per_s / 1000000 &&
         x.multiprocessors == y.multiprocessors && x.compute_major == y.compute_major &&
         x.compute_minor == y.compute_minor && x.core_clock_khz == y.core_clock_khz &&
         std::memcmp(x.uuid, y.uuid, sizeof(x.uuid)) == 0;
}

/// `early` was made before CUDA was initialised; stops it.
void described(cutrace::session& early, const cutrace::memory_sink& seen_early, device_work& gpu) {
  gpu.launch(1);
  gpu.wait();
  early.stop();
  const descriptions before(seen_early);
  cutrace::session trace(plain());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  gpu.launch(2);
  gpu.wait();
  trace.stop();
  const descriptions after(sink);
  bool ok = before.devices.size() == after.devices.size() && !after.devices.empty() && after.contexts.size() == 1 &&
            after.streams.size() == 1;
  for (std::size_t i = 0; ok && i < after.devices.size(); ++i) ok = same_device(before.devices[i], after.devices[i]);
  if (ok) {
    const cutrace::event &context = after.contexts[0], &stream = after.streams[0];
    bool known = false;
    for (const cutrace::event& e : before.contexts)
      known = known || (e.context == context.context && e.device == context.device && !e.context_.derived);
    bool known_stream = false;
    for (const cutrace::event& e : before.streams)
      known_stream = known_stream || (e.stream == stream.stream && e.context == stream.context && !e.stream_.derived);
    ok = known && known_stream && context.context_.derived && stream.stream_.derived;
  }
  report(ok, "a late session describes devices, and the context and stream of its work",
         std::to_string(before.devices.size()) + " and " + std::to_string(after.devices.size()) + " devices, " +
             std::to_string(before.contexts.size()) + " and " + std::to_string(after.contexts.size()) + " contexts, " +
             std::to_string(before.streams.size()) + " and " + std::to_string(after.streams.size()) + " streams");
}

void while_threads_launch(device_work& gpu) {
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      DO(cuCtxSetCurrent, gpu.context);
      while (!end) {
        CUTRACE_STAGE("step");
        gpu.launch(50);
        gpu.wait();
      }
    });
  bool ok = true;
  std::uint64_t kernels = 0, devices = 0, contexts = 0;
  for (int round = 0; round < 6; ++round) {
    cutrace::session trace(plain());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (round % 2 == 1) {
      trace.pause();
      trace.resume();
    }
    trace.stop();
    const cutrace::stats s = trace.stats();
    kernels += s.by_kind[static_cast<std::size_t>(cutrace::event_kind::kernel)];
    devices += s.by_kind[static_cast<std::size_t>(cutrace::event_kind::device)];
    contexts += s.by_kind[static_cast<std::size_t>(cutrace::event_kind::context)];
    ok = ok && s.produced == s.delivered + s.lost_total() &&
         s.lost[static_cast<std::size_t>(cutrace::loss_cause::unknown_record)] == 0;
  }
  end = true;
  for (std::thread& t : threads) t.join();
  report(ok && kernels != 0 && devices >= 6 && contexts == 6, "six sessions while four threads launch",
         std::to_string(kernels) + " kernels, " + std::to_string(devices) + " devices and " + std::to_string(contexts) +
             " contexts described");
}

/// What threads launch while the trace ends is no part of it: no kernel comes without its call.
void ends_while_threads_launch(device_work& gpu) {
  constexpr auto unseen = static_cast<std::size_t>(cutrace::attribution::no_callback);
  std::uint64_t kernels = 0, without_call = 0;
  for (int round = 0; round < 10; ++round) {
    cutrace::session trace(plain());
    std::atomic<bool> end{false};
    std::atomic<int> begun{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        DO(cuCtxSetCurrent, gpu.context);
        for (gpu.launch(50), ++begun; !end; gpu.wait()) gpu.launch(50);
      });
    while (begun != 4) std::this_thread::yield();
    trace.stop();
    end = true;
    for (std::thread& t : threads) t.join();
    const cutrace::stats s = trace.stats();
    kernels += s.by_kind[static_cast<std::size_t>(cutrace::event_kind::kernel)];
    without_call += s.unattributed_by[unseen];
  }
  report(kernels >= 2000 && without_call == 0, "ten sessions end while four threads launch",
         std::to_string(kernels) + " kernels, " + std::to_string(without_call) + " without their call");
}

void context_goes_first(device_work& gpu) {
  cutrace::session trace(plain());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  {
    CUTRACE_STAGE("last");
    gpu.launch(40);
    gpu.wait();
  }
  DO(cuDevicePrimaryCtxReset, gpu.device);
  trace.stop();
  const seen s(sink, trace.stats(), "last");
  report(s.kernels == 40 && s.staged == 40 && s.balanced, "the context is reset before the session stops", s.text());
}

/// GPU work that runs on when a session ends beside another one is in the other's file, with its times, and counts as
/// lost in the file of the one that ended.
void leaves_while_work_runs(device_work& gpu) {
  CUstream other{};
  DO(cuStreamCreate, &other, CU_STREAM_NON_BLOCKING);
  cutrace::session stays(plain());
  cutrace::memory_sink& whole = stays.emplace_sink<cutrace::memory_sink>();
  gpu.launch(7);
  gpu.wait();
  const auto kernels = [](const cutrace::memory_sink& sink) {
    std::uint64_t n = 0;
    for (const cutrace::event& e : sink.events()) n += e.kind == cutrace::event_kind::kernel && !e.incomplete ? 1 : 0;
    return n;
  };
  constexpr auto unpaired = static_cast<std::size_t>(cutrace::loss_cause::unpaired);
  std::string found;
  std::uint64_t so_far = 7;
  bool ok = true;
  for (int round = 0; round < 3; ++round) {
    // What is still to be delivered would be delivered to the next session, too. On a busy machine a thread of CUPTI
    // may still be handing over records of the work when a flush returns.
    for (int patience = 0; patience < 5000 && (patience == 0 || kernels(whole) < so_far); ++patience) {
      ok = stays.flush() && ok;
      ::usleep(1000);
    }
    cutrace::session leaves(plain());
    cutrace::memory_sink& part = leaves.emplace_sink<cutrace::memory_sink>();
    gpu.spin(gpu.stream, 200000000);
    gpu.launch(20);
    if (round != 0) {  // ends soon, but the thread's records come together
      for (int i = 0; i < 5; ++i) DO(cuLaunchKernel, gpu.kernel, 1, 1, 1, 1, 1, 1, 0, other, nullptr, nullptr);
      DO(cuStreamSynchronize, other);
    }
    if (round == 2) gpu.wait();
    leaves.stop();
    // On a busy machine the work may have ended before the session.
    const bool runs_on = CU(cuStreamQuery)(gpu.stream) == CUDA_ERROR_NOT_READY;
    const cutrace::stats s = part.totals();
    const std::uint64_t launched = round != 0 ? 26 : 21, there = kernels(part);
    ok = ok && s.launches_seen == launched && there + s.lost[unpaired] == launched &&
         (there == launched || round != 2) && (there < launched || !runs_on);
    ok = ok && s.produced == s.delivered + s.lost_total() && s.pending == 0;
    found += std::to_string(there) + " kernels and " + std::to_string(s.lost[unpaired]) + " lost, ";
    gpu.wait();
    so_far += launched;
  }
  stays.stop();
  const cutrace::stats s = whole.totals();
  ok = ok && kernels(whole) == 7 + 21 + 26 + 26 && s.lost_total() == 0 && s.produced == s.delivered;
  report(ok, "sessions end beside another one while work runs", found + std::to_string(kernels(whole)) + " in all");
}

/// Work that was launched before a session joined counts as lost for it where its file has the launch, and only there.
void joins_while_work_runs(device_work& gpu, bool delivered) {
  cutrace::session stays(plain());
  gpu.spin(gpu.stream, 300000000);
  gpu.launch(20);
  const bool flushed = !delivered || stays.flush();
  cutrace::session joins(plain());
  cutrace::memory_sink& part = joins.emplace_sink<cutrace::memory_sink>();
  joins.stop();
  gpu.wait();
  const cutrace::stats s = part.totals();
  const seen in_file(part, s, "");
  const std::uint64_t lost = s.lost[static_cast<std::size_t>(cutrace::loss_cause::unpaired)];
  report(flushed && in_file.calls == in_file.kernels + lost && (!delivered || in_file.calls == 0),
         std::string("a session joins while work runs whose launches were ") + (delivered ? "" : "not ") + "delivered",
         in_file.text() + ", " + std::to_string(lost) + " lost");
}

/// What leaves no record is not awaited when a session ends beside another one: copies of 0 bytes, and with
/// `kinds_off` all copies and sets.
void leaves_no_record_behind(device_work& gpu, bool kinds_off) {
  if (kinds_off) setenv("CUTRACE_KINDS", "kernel", 1);
  CUdeviceptr memory{};
  DO(cuMemAlloc, &memory, 1 << 16);
  cutrace::session stays(plain());
  cutrace::session leaves(plain());
  cutrace::memory_sink& part = leaves.emplace_sink<cutrace::memory_sink>();
  unsetenv("CUTRACE_KINDS");
  gpu.spin(gpu.stream, 300000000);
  for (int i = 0; i < 5; ++i) {
    DO(cuMemcpyDtoDAsync, memory, memory + 512, kinds_off ? 256 : 0, gpu.stream);
    DO(cuMemsetD8Async, memory, 0, kinds_off ? 256 : 0, gpu.stream);
  }
  leaves.stop();
  const bool runs_on = CU(cuStreamQuery)(gpu.stream) == CUDA_ERROR_NOT_READY;
  constexpr auto unpaired = static_cast<std::size_t>(cutrace::loss_cause::unpaired);
  const std::uint64_t lost = part.totals().lost[unpaired];
  gpu.wait();
  DO(cuMemFree, memory);
  report(lost == 1 || (lost == 0 && !runs_on),
         std::string("a session ends behind work without records, ") + (kinds_off ? "kinds off" : "0 bytes"),
         std::to_string(lost) + " lost");
}

/// For `cutrace run --duration`, whose time ends while the work runs: this session gets all of it with its times.
int works_beside_duration(bool ahead) {
  cutrace::session trace(plain());
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
  const device_work gpu;
  const std::size_t launches = ahead ? 20 : 1200;
  for (std::size_t i = 0; i < launches; ++i) {
    gpu.spin(gpu.stream, ahead ? 150000000 : 5000000);
    if (!ahead && i % 2 != 0) gpu.wait();
  }
  gpu.wait();
  trace.stop();
  std::size_t kernels = 0, unfinished = 0;
  for (const cutrace::event& e : sink.events()) {
    kernels += e.kind == cutrace::event_kind::kernel;
    unfinished += e.incomplete;
  }
  const bool all = ahead ? kernels == launches : kernels != 0;  // recording is over for this session, too
  report(all && unfinished == 0 && sink.totals().lost_total() == 0, "work beside --duration",
         std::to_string(kernels) + " kernels, " + std::to_string(unfinished) + " of them unfinished");
  return failures;
}

/// Begins a session before CUDA starts, on a thread bound to one processor. Threads of cutrace and CUPTI must not be
/// bound to it: beside a busy thread they took a third of an inference engine's speed.
std::unique_ptr<cutrace::session> begun_while_bound() {
  cpu_set_t before, one, now;
  CPU_ZERO(&before);
  CPU_ZERO(&one);
  CPU_ZERO(&now);
  test_support::must(sched_getaffinity(0, sizeof(before), &before), "sched_getaffinity");
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  test_support::must(sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
  std::unique_ptr<cutrace::session> trace(new cutrace::session(plain()));
  int threads = 0, bound = 0;
  DIR* const all = opendir("/proc/self/task");
  while (const dirent* entry = all != nullptr ? readdir(all) : nullptr) {
    const pid_t thread = std::atoi(entry->d_name);
    cpu_set_t on;
    CPU_ZERO(&on);
    if (thread == 0 || thread == getpid() || sched_getaffinity(thread, sizeof(on), &on) != 0) continue;
    ++threads;
    bound += CPU_EQUAL(&on, &before) ? 0 : 1;
  }
  if (all != nullptr) closedir(all);
  test_support::must(sched_getaffinity(0, sizeof(now), &now), "sched_getaffinity");
  test_support::must(sched_setaffinity(0, sizeof(before), &before), "sched_setaffinity");
  // ThreadSanitizer has a thread of its own, which it starts when the program starts its first one.
  const int most = sanitized ? 1 : 0;
  report(threads >= 2 && bound <= most && CPU_EQUAL(&now, &one), "a session of a thread that is bound to one processor",
         std::to_string(bound) + " of " + std::to_string(threads) + " threads are bound with it");
  return trace;
}

cutrace::session* volatile never_destroyed = nullptr;  // a store that no compiler leaves out: it is no leak

/// The session is never stopped: the runtime ends the trace when the program exits, after CUPTI's own exit handlers.
int leave_open() {
  cutrace::session_options o;
  o.backend = "cupti";
  never_destroyed = new cutrace::session(o);  // sinks from CUTRACE_SINKS
  device_work gpu;
  {
    CUTRACE_STAGE("left open");
    gpu.launch(60);
    gpu.wait();
  }
  std::exit(7);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "exit") return leave_open();
  if (argc > 1) return works_beside_duration(std::string(argv[1]) == "ahead");
  const std::unique_ptr<cutrace::session> early = begun_while_bound();
  cutrace::memory_sink& seen_early = early->emplace_sink<cutrace::memory_sink>();
  device_work gpu;
  described(*early, seen_early, gpu);
  paused(gpu);
  one_after_another(gpu);
  while_threads_launch(gpu);
  ends_while_threads_launch(gpu);
  leaves_while_work_runs(gpu);
  joins_while_work_runs(gpu, false);
  joins_while_work_runs(gpu, true);
  leaves_no_record_behind(gpu, false);
  leaves_no_record_behind(gpu, true);
  context_goes_first(gpu);
  return failures;
}
