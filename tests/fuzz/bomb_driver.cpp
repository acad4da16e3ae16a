// SPDX-License-Identifier: Apache-2.0
// Looks for bombs: traces that take more memory or time than their size allows. Coverage leads libFuzzer past them,
// since a loop that runs a million times looks like one that runs 128 times. Here an input is kept for what it cost,
// and the costliest ones are mutated further. Without sanitizers, so that there are hundreds of inputs a second.
//
//   read_bombs jsonl|chrome|perfetto [-max_total_time=SECONDS] [-runs=N] [-seed=N] [-memory_mb=N] [-time_ms=N]
//              [-content_mb=N] [-input=FILE] FOLDER...
//
// FOLDER: seeds of read_fuzz. Exit 1: one took more than -memory_mb (256, twice what the readers may keep) or -time_ms
// (2000); FILE (default: bomb) holds it. -content_mb: what an input unpacks to at most (8 of JSONL, else 1). To look
// for lines without an end: -content_mb=64 -memory_mb=512, since the parser takes 320 MiB for the longest line.
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cutrace/sinks/null.hpp>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "inputs.hpp"
#include "made_of_it.hpp"
#include "read_mutator.hpp"
#include "trace/memory_budget.hpp"
#include "trace/trace_reader.hpp"

namespace {

std::size_t allocated = 0, peak = 0;  // by operator new; one thread

void* count(void* at) noexcept {
  if (at != nullptr) peak = std::max(peak, allocated += ::malloc_usable_size(at));
  return at;
}

}  // namespace

void* operator new(std::size_t n) {
  if (void* const at = count(std::malloc(n))) return at;
  throw std::bad_alloc();
}
void* operator new(std::size_t n, std::align_val_t to) {
  if (void* const at = count(std::aligned_alloc(static_cast<std::size_t>(to), n + -n % static_cast<std::size_t>(to))))
    return at;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* at) noexcept {  // inlined, its `free` would look mismatched to g++
  if (at != nullptr) allocated -= ::malloc_usable_size(at);
  std::free(at);
}
void operator delete(void* at, std::size_t) noexcept { operator delete(at); }
void operator delete(void* at, std::align_val_t) noexcept { operator delete(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { operator delete(at); }

namespace {

struct tried {
  fuzz::input_bytes input;  ///< as read_fuzz takes it: a byte that chooses what is made of the trace, then the file
  std::size_t memory = 0;
  double memory_a_byte = 0;  ///< of what it unpacks to, plus a constant: else the smallest inputs would rank first
  double ms = 0;
};

double cpu_ms() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

double memory_a_byte(const tried& t) {
  const std::string content(t.input.begin() + 1, t.input.end());
  const std::size_t size = fuzz::is_gzip(content) ? fuzz::unzipped(content).size() : content.size();
  return static_cast<double>(t.memory) / static_cast<double>(size + fuzz::content_limit / 8);
}

void run(tried& t) {
  const fuzz::memory_file file(t.input.data() + 1, t.input.size() - 1);
  const double before_ms = cpu_ms();
  const std::size_t before = peak = allocated;
  try {
    std::unique_ptr<cutrace::sink> sink = fuzz::make_of_it(t.input[0] >> 2);
    if (sink == nullptr) sink = std::make_unique<cutrace::null_sink>();
    cutrace_reading::read({file.path()}, *sink);
  } catch (const cutrace_reading::reading_error&) {
  }
  t.memory = peak - before;
  t.ms = cpu_ms() - before_ms;
  t.memory_a_byte = memory_a_byte(t);
}

/// The costliest inputs by one measure. A child takes the place of its parent, so that no family drives out the others.
template <class Cost>
class ranking {
 public:
  explicit ranking(Cost cost) : cost_(cost) {}
  /// The costliest of `some` that are drawn at random.
  std::size_t any(fuzz::random& r, int some) const {
    std::size_t best = fuzz::below(r, all_.size());
    for (int n = 1; n < some; ++n) {
      const std::size_t other = fuzz::below(r, all_.size());
      if (cost_(all_[other]) > cost_(all_[best])) best = other;
    }
    return best;
  }
  const tried& operator[](std::size_t i) const { return all_[i]; }
  void add(const tried& t, std::size_t parent = SIZE_MAX) {
    if (all_.size() < places) return all_.push_back(t);
    tried& weakest = *std::min_element(all_.begin(), all_.end(),
                                       [&](const tried& a, const tried& b) { return cost_(a) < cost_(b); });
    tried& other = parent < all_.size() ? all_[parent] : weakest;
    if (cost_(t) > cost_(other)) other = t;
  }
  double most() const {
    double m = 0;
    for (const tried& t : all_) m = std::max(m, static_cast<double>(cost_(t)));
    return m;
  }

 private:
  static constexpr std::size_t places = 24;
  Cost cost_;
  std::vector<tried> all_;
};

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t runs = ~std::uint64_t{0}, seconds = 60, seed = 1, memory_mb = 256, time_ms = 2000, content_mb = 0;
  const std::string format = argc > 1 ? argv[1] : "";
  std::string path = "bomb";
  std::vector<fuzz::input_bytes> inputs;
  if (format != "jsonl" && format != "chrome" && format != "perfetto")
    return std::fputs("read_bombs: the first word is jsonl, chrome or perfetto\n", stderr), 2;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&](const std::string& name, std::uint64_t& to) {
      if (word.rfind(name, 0) != 0) return false;
      to = std::strtoull(word.c_str() + name.size(), nullptr, 10);
      return true;
    };
    if (value("-runs=", runs) || value("-seed=", seed) || value("-max_total_time=", seconds) ||
        value("-memory_mb=", memory_mb) || value("-time_ms=", time_ms) || value("-content_mb=", content_mb))
      continue;
    if (word.rfind("-input=", 0) == 0) {
      path = word.substr(7);
      continue;
    }
    if (!fuzz::add_seeds(word, inputs))
      return std::fprintf(stderr, "read_bombs: %s is neither an option nor a folder of seeds\n", word.c_str()), 2;
  }
  std::sort(inputs.begin(), inputs.end());
  std::vector<tried> seeds;
  for (fuzz::input_bytes& input : inputs)
    if (input.size() > 1) seeds.push_back({std::move(input)});
  if (seeds.empty()) return std::fputs("read_bombs: there are no seeds\n", stderr), 2;

  // A list of requests in readers without a limit takes 40 times its line's size, the parser 20 times. Lines of 8 MiB
  // are long enough for the former to exceed 256 MiB, and too short for the latter.
  if (format == "jsonl") fuzz::content_limit = std::size_t{8} << 20;
  if (content_mb != 0) fuzz::content_limit = static_cast<std::size_t>(content_mb) << 20;
  cutrace_reading::memory_budget::of_process().set_limit(std::size_t{128} << 20);
  ranking heavy([](const tried& t) { return t.memory; });
  // The heaviest inputs soon reach content_limit and cannot grow, so memory a byte is ranked as well.
  ranking dense([](const tried& t) { return t.memory_a_byte; });
  ranking slow([](const tried& t) { return t.ms; });
  fuzz::random random(seed);
  const auto check = [&](const tried& t) {
    if (t.memory <= memory_mb << 20 && t.ms <= static_cast<double>(time_ms)) return;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(t.input.data()), static_cast<std::streamsize>(t.input.size()));
    std::printf("an input of %zu bytes takes %zu MiB and %.0f ms; %s holds it, behind a first byte\n",
                t.input.size() - 1, t.memory >> 20, t.ms, path.c_str());
    std::fflush(stdout);
    std::_Exit(1);
  };
  for (tried& t : seeds) {
    run(t);
    check(t);
    heavy.add(t);
    dense.add(t);
    slow.add(t);
  }
  const std::time_t end = std::time(nullptr) + static_cast<std::time_t>(seconds);
  std::uint64_t made = 0;
  fuzz::input_bytes room(fuzz::content_limit + 65536);
  for (; made < runs && (runs != ~std::uint64_t{0} || std::time(nullptr) < end); ++made) {
    // An input becomes denser in many steps, so the densest are picked most often.
    const std::size_t from = fuzz::below(random, 6), of_heavy = heavy.any(random, 1), of_dense = dense.any(random, 4),
                      of_slow = slow.any(random, 1);
    const fuzz::input_bytes& parent = from == 0   ? seeds[fuzz::below(random, seeds.size())].input
                                      : from == 1 ? slow[of_slow].input
                                      : from <= 3 ? heavy[of_heavy].input
                                                  : dense[of_dense].input;
    std::size_t size = std::min(parent.size(), room.size());
    std::copy_n(parent.begin(), size, room.begin());
    for (std::size_t n = 1 + fuzz::below(random, 3); n != 0; --n)
      size = fuzz::mutate(format != "perfetto", room.data(), size, room.size(), static_cast<unsigned>(random()),
                          [&random](std::uint8_t* data, std::size_t count, std::size_t) {
                            if (count > 1) data[fuzz::below(random, count)] = static_cast<std::uint8_t>(random());
                            return count;
                          });
    tried t;
    t.input.assign(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size));
    if (t.input.size() < 2) continue;
    run(t);
    check(t);
    heavy.add(t, from == 2 || from == 3 ? of_heavy : SIZE_MAX);
    dense.add(t, from >= 4 ? of_dense : SIZE_MAX);
    slow.add(t, from == 1 ? of_slow : SIZE_MAX);
  }
  std::printf("%zu seeds, %llu inputs made of them: the costliest took %.0f MiB, the slowest %.0f ms\n", seeds.size(),
              static_cast<unsigned long long>(made), heavy.most() / (1 << 20), slow.most());
}
