// SPDX-License-Identifier: Apache-2.0
// Runs a libFuzzer target where there is no libFuzzer, without its knowledge of coverage: every seed cut off at lengths
// up to 4096 bytes, then seeds with bits, bytes and numbers changed, pieces left out, doubled and joined.
//
//   NAME [-runs=N] [-max_total_time=SECONDS] [-seed=N] [-cuts=N] [-input=FILE] FOLDER...
//
// FILE: the input at hand, while it runs. -cuts: at most so many lengths of each seed, for large seeds
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "inputs.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size);
/// Of a target that knows what its inputs are made of.
extern "C" __attribute__((weak)) std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                                                     std::size_t max_size, unsigned seed);
/// What such a target calls to have bytes changed.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t) {
  static std::mt19937_64 random(7);
  if (size != 0) data[random() % size] = static_cast<std::uint8_t>(random());
  return size;
}

namespace {

using bytes = fuzz::input_bytes;

/// A file that is given each input in turn: when the target ends the program, it holds the one to blame.
int input_file = -1;

void keep(const bytes& input) {
  if (input_file < 0) return;
  if (::ftruncate(input_file, 0) != 0 ||
      ::pwrite(input_file, input.data(), input.size(), 0) != static_cast<ssize_t>(input.size()))
    std::perror("input file");
}

void run(const bytes& input) {
  keep(input);
  // A copy of exactly this size: a sanitizer sees the first byte behind it.
  const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[input.size()]);
  if (!input.empty()) std::memcpy(exact.get(), input.data(), input.size());
  LLVMFuzzerTestOneInput(exact.get(), input.size());
}

class mutator {
 public:
  mutator(const std::vector<bytes>& seeds, std::uint64_t seed) : seeds_(seeds), random_(seed) {}

  bytes next() {
    bytes b = seeds_[below(seeds_.size())];
    if (LLVMFuzzerCustomMutator != nullptr && below(2) == 0) {
      const std::size_t size = b.size(), room = size + 65536;
      b.resize(room);
      b.resize(LLVMFuzzerCustomMutator(b.data(), size, room, static_cast<unsigned>(random_())));
      return b;
    }
    for (std::size_t n = 1 + below(6); n != 0; --n) change(b);
    return b;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random_() % n); }

  void change(bytes& b) {
    static constexpr std::uint64_t numbers[] = {0,  1,  2,  3,  5,   10,         17,         22,         45,
                                                51, 52, 64, 96, 216, 0x7fffffff, 0xffffffff, 1ull << 63, ~0ull};
    if (b.size() < 3) return b.push_back(static_cast<std::uint8_t>(random_()));
    const std::size_t at = below(b.size());
    switch (below(8)) {
      case 0:
        b[at] = static_cast<std::uint8_t>(b[at] ^ (1u << below(8)));
        return;
      case 1:
        b[at] = static_cast<std::uint8_t>(random_());
        return;
      case 2:
      case 3: {  // a number where records have theirs
        const std::uint64_t v = numbers[below(std::size(numbers))];
        const std::size_t aligned = 2 + (at / 4) * 4, width = below(2) == 0 ? 4 : 8;
        if (aligned + width <= b.size()) std::memcpy(b.data() + aligned, &v, width);
        return;
      }
      case 4:
        b.resize(2 + below(b.size() - 2));
        return;
      case 5: {
        const std::size_t n = below(b.size() - at) + 1;
        b.erase(b.begin() + static_cast<std::ptrdiff_t>(at), b.begin() + static_cast<std::ptrdiff_t>(at + n));
        return;
      }
      case 6:  // the bytes that decode_fuzz takes for its choices
        b[0] = static_cast<std::uint8_t>(random_());
        b[1] = static_cast<std::uint8_t>(random_());
        return;
      default: {
        const bytes& other = seeds_[below(seeds_.size())];
        const std::size_t from = below(other.size());
        if (b.size() < 100000)
          b.insert(b.begin() + static_cast<std::ptrdiff_t>(at), other.begin() + static_cast<std::ptrdiff_t>(from),
                   other.end());
      }
    }
  }

  const std::vector<bytes>& seeds_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t runs = 100000, seconds = 0, seed = 1, cuts = 4096;
  std::string path;
  std::vector<bytes> seeds;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&](const char* name, std::uint64_t& to) {
      const std::size_t n = std::strlen(name);
      if (word.compare(0, n, name) != 0) return false;
      to = std::strtoull(word.c_str() + n, nullptr, 10);
      return true;
    };
    if (value("-runs=", runs) || value("-seed=", seed) || value("-cuts=", cuts)) continue;
    if (value("-max_total_time=", seconds)) {
      runs = ~std::uint64_t{0};
    } else if (word.rfind("-input=", 0) == 0) {
      path = word.substr(7);
      input_file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    } else if (!fuzz::add_seeds(word, seeds)) {
      std::fprintf(stderr, "%s is neither an option nor a folder of seeds\n", word.c_str());
      return 2;
    }
  }
  if (seeds.empty()) return std::fputs("there are no seeds\n", stderr), 2;

  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::uint64_t cut = 0, changed = 0;
  for (const bytes& s : seeds)
    for (std::size_t n = 0; n <= s.size() && n <= 4096; n += 1 + std::min<std::size_t>(s.size(), 4096) / cuts, ++cut)
      run(bytes(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(n)));
  for (mutator m(seeds, seed); changed < runs; ++changed) {
    if (seconds != 0 && changed % 1024 == 0 && std::chrono::steady_clock::now() >= end) break;
    run(m.next());
  }
  std::printf("%zu seeds, %llu inputs cut off, %llu changed: no finding\n", seeds.size(),
              static_cast<unsigned long long>(cut), static_cast<unsigned long long>(changed));
  if (!path.empty()) ::unlink(path.c_str());
}
