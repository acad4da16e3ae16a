// SPDX-License-Identifier: Apache-2.0
// What a hooked call costs, beside the same call unhooked between two reads of a clock: clock_gettime, which the budget
// is about, and the processor's counter, which a hook really reads. All are timed in short turns within one burst, so
// that they meet the same clock speed and the same running collector. A burst fits into the pool of chunks (buffers of
// records), so that no figure includes calls whose records were dropped. Starts itself again with the library
// preloaded.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>

#include "support/pairs.hpp"

namespace {

constexpr int turn = 250, turns = 80;
constexpr int pairs = 41;

struct counting_sink : cutrace::sink {
  std::uint64_t seen = 0;
  void write(cutrace::event_view events) override { seen += events.size; }
};

template <class Function>
Function* find(const char* name) {
  static void* library = dlopen(BARE_DRIVER, RTLD_NOW);
  void* found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "no %s: %s\n", name, BARE_DRIVER);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

template <class Work>
std::uint64_t turn_ns(Work& work) {
  const std::uint64_t begin = cutrace::clock::monotonic_ns();
  for (int i = 0; i < turn; ++i) work();
  return cutrace::clock::monotonic_ns() - begin;
}

struct figures {
  const char* what;
  std::vector<double> hooked, off, bare, with_counter, with_clock;
};

/// One pair: nanoseconds a call in each way, in alternating turns. `call(function)` makes one.
template <class Function, class Call>
void measure(figures& to, bool recording, Function* hooked, Function* bare, Call call) {
  const auto by_hook = [&] { call(hooked); };
  const auto plain = [&] { call(bare); };
  const auto counter = [&] {
    bench::keep(cutrace::clock::counter());
    call(bare);
    bench::keep(cutrace::clock::counter());
  };
  const auto clock = [&] {
    bench::keep(cutrace::clock::monotonic_ns());
    call(bare);
    bench::keep(cutrace::clock::monotonic_ns());
  };
  std::uint64_t sums[4] = {};
  for (int i = 0; i < turns; ++i) {
    sums[0] += turn_ns(plain);
    sums[1] += turn_ns(counter);
    sums[2] += turn_ns(by_hook);
    sums[3] += turn_ns(clock);
  }
  const auto each = [](std::uint64_t sum) { return static_cast<double>(sum) / (turn * turns); };
  (recording ? to.hooked : to.off).push_back(each(sums[2]));
  if (!recording) return;
  to.bare.push_back(each(sums[0]));
  to.with_counter.push_back(each(sums[1]));
  to.with_clock.push_back(each(sums[3]));
}

using nothing = int();
using copy = int(unsigned long long, const void*, std::size_t, void*);
using launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
using unknown = int(void*, void*, void*);

figures all[] = {{"cuCtxSynchronize, no argument", {}, {}, {}, {}, {}},
                 {"cuMemcpyHtoDAsync, 4 words kept", {}, {}, {}, {}, {}},
                 {"cuLaunchKernel, 11 arguments, 9 words kept", {}, {}, {}, {}, {}},
                 {"unknown to the table, 6 raw words", {}, {}, {}, {}, {}}};

template <class Flush>
void measure_all(bool recording, Flush flush) {
  static nothing *const hooked_0 = find<nothing>("cuCtxSynchronize"), *const bare_0 =
                                                                          find<nothing>("bare_cuCtxSynchronize");
  static copy *const hooked_1 = find<copy>("cuMemcpyHtoDAsync_v2"), *const bare_1 =
                                                                        find<copy>("bare_cuMemcpyHtoDAsync_v2");
  static launch *const hooked_2 = find<launch>("cuLaunchKernel"), *const bare_2 = find<launch>("bare_cuLaunchKernel");
  static unknown *const hooked_3 = find<unknown>("cuOfNoTable"), *const bare_3 = find<unknown>("bare_cuOfNoTable");
  flush();
  measure(all[0], recording, hooked_0, bare_0, [](nothing* f) { f(); });
  flush();
  measure(all[1], recording, hooked_1, bare_1, [](copy* f) { f(1, nullptr, 100, nullptr); });
  flush();
  measure(all[2], recording, hooked_2, bare_2,
          [](launch* f) { f(nullptr, 1, 2, 3, 4, 5, 6, 7, nullptr, nullptr, nullptr); });
  flush();
  measure(all[3], recording, hooked_3, bare_3, [](unknown* f) { f(nullptr, nullptr, nullptr); });
}

}  // namespace

int main(int, char** argv) {
  const char* preloaded = std::getenv("LD_PRELOAD");
  if (preloaded == nullptr || *preloaded == '\0') {
    ::setenv("LD_PRELOAD", PRELOADED_LIBRARY, 1);
    ::setenv("CUTRACE_SINKS", "", 1);
    ::execv("/proc/self/exe", argv);
    std::perror("execv");
    return 1;
  }
  bench::print_machine();
  cutrace::session_options options;
  options.backend = "preload";
  options.sinks = "";
  cutrace::session trace(options);
  counting_sink& sink = trace.emplace_sink<counting_sink>();
  for (int i = 0; i < pairs; ++i) measure_all(true, [&trace] { trace.flush(); });
  trace.stop();
  const cutrace::stats s = trace.stats();
  for (int i = 0; i < pairs; ++i) measure_all(false, [] {});

  for (const figures& f : all) {
    std::printf("%-44s bare %.2f ns, hooked with no session %.2f ns\n", f.what, bench::median(f.bare),
                bench::median(f.off));
    bench::print_verdict("  hooked, beside the call and two reads of a clock", f.hooked, f.with_clock, "ns", 1.3);
    bench::print_ratio("  hooked, beside the call and two of the counter", f.hooked, f.with_counter, "ns");
    std::printf("\n");
  }
  std::printf("produced %llu, delivered %llu, lost %llu\n", static_cast<unsigned long long>(s.produced),
              static_cast<unsigned long long>(s.delivered), static_cast<unsigned long long>(s.lost_total()));
  return sink.seen == s.delivered && s.lost_total() == 0 ? 0 : 1;
}
