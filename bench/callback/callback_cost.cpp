// SPDX-License-Identifier: Apache-2.0
// What our callback adds to a launch, copy or wait (ENTER and EXIT), beside an empty one: in a tight loop, in a program
// whose own work has driven our code and data out of the near caches since the last call, and in one whose work has
// also used so many pages that the TLB has lost those of ours, as eager PyTorch does. Needs no GPU: the injection
// library is loaded with a libcupti that only hands its callback over.
//
//   callback_cost          prints the costs, by pairs
//   callback_cost --paced  what the collector's thread does: without calls, then with one launch each 15 us
//   callback_cost --once   one call between two stores to a marked address, for lines.py
#include <cupti.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/clock.hpp>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>

#include "support/pairs.hpp"

namespace {

constexpr int pairs = 41, hot_calls = 2000, cold_calls = 300;
constexpr std::size_t data_bytes = std::size_t{4} << 20, code_bytes = std::size_t{512} << 10;
constexpr std::size_t page_bytes = 4096, line_bytes = 64;
constexpr std::size_t data_pages = 8192, code_pages = 2048;  ///< more than the second-level TLB of any processor holds

/// Stores to it bound the call that lines.py looks at, which knows the address.
void* const window_at = reinterpret_cast<void*>(std::uintptr_t{1} << 40);

void CUPTIAPI empty(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) { __asm__ __volatile__(""); }

void* map(std::size_t bytes, int protection, void* where = nullptr) {
  void* at = mmap(where, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::perror("mmap"), std::exit(1);
  return at;
}

void* open_or_leave(const char* path, int flags) {
  void* library = dlopen(path, flags);
  if (library != nullptr) return library;
  std::fprintf(stderr, "%s\n", dlerror());
  std::exit(1);
}

/// Callback of the injection library. All that is loaded lies in the build folder of this program, wherever that is.
CUpti_CallbackFunc traced() {
  const std::filesystem::path here = std::filesystem::canonical("/proc/self/exe").parent_path();
  const std::filesystem::path build = here.parent_path().parent_path();
  setenv("CUTRACE_CUPTI_LIBRARY", (here / "libquiet_cupti.so").c_str(), 1);
  setenv("CUTRACE_SINKS", "null", 1);
  open_or_leave((build / "standin/libcuda.so.1").c_str(), RTLD_NOW | RTLD_GLOBAL);  // gives a version
  void* ours = open_or_leave((build / "libcutrace_inject.so").c_str(), RTLD_NOW);
  reinterpret_cast<int (*)()>(dlsym(ours, "InitializeInjection"))();
  void* quiet = open_or_leave((here / "libquiet_cupti.so").c_str(), RTLD_NOW);
  const CUpti_CallbackFunc f = reinterpret_cast<CUpti_CallbackFunc (*)()>(dlsym(quiet, "quiet_cupti_client"))();
  if (f == nullptr) std::fprintf(stderr, "the injection library has not subscribed\n"), std::exit(1);
  return f;
}

/// A call as CUPTI reports it to callbacks.
class recorded_call {
 public:
  /// `parameters`: of that function, all zero.
  recorded_call(CUpti_CallbackId function, const void* parameters) : function_(function) {
    data_.functionParams = parameters;
    data_.correlationData = &between_;
    data_.functionReturnValue = &result_;
  }
  void call(CUpti_CallbackFunc f) {
    data_.callbackSite = CUPTI_API_ENTER;
    data_.correlationId = ++id_;
    f(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, function_, &data_);
    data_.callbackSite = CUPTI_API_EXIT;
    f(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, function_, &data_);
  }

 private:
  const CUpti_CallbackId function_;
  CUpti_CallbackData data_{};
  CUresult result_ = CUDA_SUCCESS;
  std::uint64_t between_ = 0;
  static inline std::uint32_t id_ = 0;
};

/// What a program does between two calls, as far as caches see it: much data, and code in many lines. With `in_pages`
/// also as far as the TLB sees it: a line in each of many pages of data and code.
class other_work {
 public:
  explicit other_work(bool in_pages) : in_pages_(in_pages) {
    data_ = static_cast<unsigned char*>(map(data_bytes, PROT_READ | PROT_WRITE));
    code_ = static_cast<unsigned char*>(map(code_bytes, PROT_READ | PROT_WRITE | PROT_EXEC));
    std::memset(data_, 1, data_bytes);
    for (std::size_t i = 0; i < code_bytes; i += 64) put(code_ + i, i + 64 == code_bytes);
    __builtin___clear_cache(reinterpret_cast<char*>(code_), reinterpret_cast<char*>(code_ + code_bytes));
    if (in_pages) spread();
  }
  void run() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < data_bytes; i += 64) sum += data_[i];
    bench::keep(sum);
    reinterpret_cast<void (*)()>(code_)();
    if (!in_pages_) return;
    for (std::size_t i = 0; i < data_pages; ++i) sum += far_data_[place(i)];
    bench::keep(sum);
    reinterpret_cast<void (*)()>(far_code_)();
  }

 private:
  /// Another line in each page, so that they do not all compete for one set of a cache.
  static std::size_t place(std::size_t page) { return page * page_bytes + page * line_bytes % page_bytes; }

  void spread() {
    far_data_ = static_cast<unsigned char*>(map(data_pages * page_bytes, PROT_READ | PROT_WRITE));
    far_code_ = static_cast<unsigned char*>(map(code_pages * page_bytes, PROT_READ | PROT_WRITE | PROT_EXEC));
    madvise(far_data_, data_pages * page_bytes, MADV_NOHUGEPAGE);
    madvise(far_code_, code_pages * page_bytes, MADV_NOHUGEPAGE);
    for (std::size_t i = 0; i < data_pages; ++i) far_data_[place(i)] = 1;
    for (std::size_t i = 0; i < code_pages; ++i) {
      unsigned char* const at = far_code_ + place(i);
      if (i + 1 == code_pages)
        put(at, true);
      else
        put_far(at, far_code_ + place(i + 1));
    }
    __builtin___clear_cache(reinterpret_cast<char*>(far_code_),
                            reinterpret_cast<char*>(far_code_ + code_pages * page_bytes));
  }

  /// A jump to `to`, farther on.
  static void put_far(unsigned char* at, const unsigned char* to) {
#if defined(__x86_64__)
    const std::int32_t distance = static_cast<std::int32_t>(to - (at + 5));
    *at = 0xe9;
    std::memcpy(at + 1, &distance, sizeof(distance));
#else
    const std::uint32_t jump = 0x14000000 | static_cast<std::uint32_t>((to - at) / 4);
    std::memcpy(at, &jump, sizeof(jump));
#endif
  }

  /// In each line a jump to the next one, in the last one a return.
  static void put(unsigned char* at, bool last) {
#if defined(__x86_64__)
    const unsigned char jump[] = {0xeb, 62}, leave[] = {0xc3, 0xcc};
#else
    const std::uint32_t jump[] = {0x14000010}, leave[] = {0xd65f03c0};
#endif
    std::memcpy(at, last ? leave : jump, sizeof(jump));
  }

  const bool in_pages_;
  unsigned char* data_;
  unsigned char* code_;
  unsigned char* far_data_ = nullptr;
  unsigned char* far_code_ = nullptr;
};

double hot_ns(recorded_call& l, CUpti_CallbackFunc f) {
  const std::uint64_t begin = cutrace::clock::monotonic_ns();
  for (int i = 0; i < hot_calls; ++i) l.call(f);
  return static_cast<double>(cutrace::clock::monotonic_ns() - begin) / hot_calls;
}

/// Of single calls, in ticks: mean of the middle half, since the counter of some machines advances in steps of 10 ns.
double cold_ticks(recorded_call& l, CUpti_CallbackFunc f, const other_work& between) {
  std::vector<double> ticks;
  for (int i = 0; i < cold_calls; ++i) {
    between.run();
    const std::uint64_t begin = cutrace::clock::counter();
    l.call(f);
    ticks.push_back(static_cast<double>(cutrace::clock::counter() - begin));
  }
  std::sort(ticks.begin(), ticks.end());
  return std::accumulate(ticks.begin() + cold_calls / 4, ticks.end() - cold_calls / 4, 0.0) / (cold_calls / 2);
}

double ns_per_tick() {
  const std::uint64_t ns = cutrace::clock::monotonic_ns(), ticks = cutrace::clock::counter();
  while (cutrace::clock::monotonic_ns() - ns < 20000000) continue;
  return static_cast<double>(cutrace::clock::monotonic_ns() - ns) /
         static_cast<double>(cutrace::clock::counter() - ticks);
}

/// How often a thread of this process has gone to sleep, and its CPU time.
struct thread_work {
  std::uint64_t sleeps, cpu_ns;
};
thread_work work_of(const char* name) {
  thread_work w{0, 0};
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string word;
    if (!(std::ifstream(task.path() / "comm") >> word) || word != name) continue;
    std::ifstream(task.path() / "schedstat") >> w.cpu_ns;
    std::ifstream status(task.path() / "status");
    while (status >> word)
      if (word == "voluntary_ctxt_switches:") status >> w.sleeps;
  }
  return w;
}

/// Prints what the collector's thread does during `run`, which takes some seconds.
template <class Run>
void print_collector(const char* what, Run run) {
  const thread_work before = work_of("cutrace");
  const std::uint64_t begin = cutrace::clock::monotonic_ns();
  run();
  const double seconds = static_cast<double>(cutrace::clock::monotonic_ns() - begin) / 1e9;
  const thread_work after = work_of("cutrace");
  const double sleeps = static_cast<double>(after.sleeps - before.sleeps);
  const double cpu_us = static_cast<double>(after.cpu_ns - before.cpu_ns) / 1e3;
  std::printf("collector, %s: %.0f sleeps and %.2f ms of CPU time a second, %.1f us a sleep\n", what, sleeps / seconds,
              cpu_us / 1e3 / seconds, cpu_us / sleeps);
}

int paced(recorded_call& l, CUpti_CallbackFunc f) {
  constexpr std::uint64_t period_ns = 15000, launches = 200000;
  print_collector("no call", [] { std::this_thread::sleep_for(std::chrono::seconds(2)); });
  print_collector("a launch each 15 us", [&] {
    const std::uint64_t begin = cutrace::clock::monotonic_ns();
    for (std::uint64_t i = 0; i < launches; ++i) {
      l.call(f);
      while (cutrace::clock::monotonic_ns() - begin < i * period_ns) continue;
    }
  });
  return 0;
}

/// For lines.py: where things lie, and one call that is kept apart from the others.
int once(recorded_call& l, CUpti_CallbackFunc f) {
  for (int i = 0; i < 100; ++i) l.call(f);
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  char line[512];
  while (maps != nullptr && std::fgets(line, sizeof(line), maps) != nullptr) std::fputs(line, stdout);
  std::printf("frame %p\n", static_cast<void*>(line));
  std::fflush(stdout);
  auto* window = static_cast<volatile std::uint32_t*>(map(4096, PROT_READ | PROT_WRITE, window_at));
  *window = 1;
  l.call(f);
  *window = 2;
  return 0;
}

void print(const char* what, const std::vector<double>& ours, const std::vector<double>& reference) {
  const bench::ratio d = bench::bootstrap_difference(ours, reference);
  std::printf("%-34s %7.1f ns, empty callback %7.1f ns: adds %7.1f ns [%.1f, %.1f] of %zu pairs\n", what,
              bench::median(ours), bench::median(reference), d.value, d.low, d.high, ours.size());
}

}  // namespace

int main(int argc, char** argv) {
  const CUpti_CallbackFunc f = traced();
  const cuLaunchKernel_params launched{};
  const CUlaunchConfig config{};
  cuLaunchKernelEx_params launched_ex{};
  launched_ex.config = &config;
  const cuMemcpyHtoDAsync_v2_params copied{};
  const cuEventRecord_params noted{};
  const cuStreamSynchronize_params waited{};
  recorded_call l(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, &launched);
  recorded_call ex(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, &launched_ex);
  recorded_call copy(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, &copied);
  recorded_call record(CUPTI_DRIVER_TRACE_CBID_cuEventRecord, &noted);
  recorded_call wait(CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, &waited);
  if (argc > 1 && std::strcmp(argv[1], "--once") == 0) return once(l, f);
  if (argc > 1 && std::strcmp(argv[1], "--paced") == 0) return paced(l, f);
  bench::print_machine();
  const other_work in_lines(false), in_pages(true);
  const double scale = ns_per_tick();
  struct row {
    const char* what;
    recorded_call& made;
    const other_work* between;  ///< null: none
    std::vector<double> ours = {}, empty_ones = {};
  };
  row rows[] = {{"a launch", l, nullptr},
                {"a launch by cuLaunchKernelEx", ex, nullptr},
                {"a copy", copy, nullptr},
                {"an event record", record, nullptr},
                {"a wait for a stream", wait, nullptr},
                {"a launch, after other work", l, &in_lines},
                {"cuLaunchKernelEx, after other work", ex, &in_lines},
                {"a copy, after other work", copy, &in_lines},
                {"a wait, after other work", wait, &in_lines},
                {"a launch, after work on many pages", l, &in_pages}};
  for (int i = 0; i < pairs; ++i)
    for (row& r : rows) {
      const auto ns = [&](CUpti_CallbackFunc of) {
        return r.between == nullptr ? hot_ns(r.made, of) : cold_ticks(r.made, of, *r.between) * scale;
      };
      r.empty_ones.push_back(ns(&empty));
      r.ours.push_back(ns(f));
    }
  for (const row& r : rows) print(r.what, r.ours, r.empty_ones);
  return 0;
}
