// SPDX-License-Identifier: Apache-2.0
// Allocations of the collector's thread fail now and then. A sink that allocates nothing counts each stage for itself:
// none comes twice, and those that do not come are counted.
//
//   short_of_memory BYTES     the least size of an allocation that may fail
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/cutrace.hpp>
#include <cutrace/sink.hpp>
#include <new>

#include "../../support/replaced_allocation.hpp"

namespace {

std::atomic<bool> scarce{false};
std::atomic<std::size_t> least{0};
std::atomic<unsigned> failed{0};

bool is_collector() {
  static thread_local int known = -1;
  if (known < 0) {
    char name[32] = {};
    ::pthread_getname_np(::pthread_self(), name, sizeof(name));
    known = std::strcmp(name, "cutrace") == 0;
  }
  return known == 1;
}

void* get(std::size_t bytes, std::size_t alignment) {
  static thread_local unsigned asked = 0;
  if (scarce && bytes >= least && is_collector() && ++asked % 3 == 0) {
    ++failed;
    throw std::bad_alloc();
  }
  void* p = alignment != 0 ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                           : std::malloc(bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

constexpr unsigned long stages = 100000;
unsigned char seen[stages];

struct counting final : cutrace::sink {
  const char* name() const noexcept override { return "counting"; }
  void write(cutrace::event_view events) override {
    for (const cutrace::event& e : events)
      if (e.kind == cutrace::event_kind::stage && e.request_count == 1) ++seen[e.requests[0].id];
  }
};

}  // namespace

void* test_support::allocate(std::size_t bytes, std::size_t alignment) { return get(bytes, alignment); }

int main(int, char** argv) {
  least = std::strtoul(argv[1], nullptr, 10);
  cutrace::session_options o;
  o.backend = "none";
  o.sinks = "null";
  cutrace::session trace(o);
  trace.emplace_sink<counting>();
  scarce = true;
  for (unsigned long i = 0; i < stages; ++i) {
    CUTRACE_STAGE("s", i);
    if (i % 2500 == 0) ::usleep(10000);
  }
  scarce = false;
  trace.stop();
  const cutrace::stats s = trace.stats();
  unsigned long never = 0, often = 0;
  for (const unsigned char n : seen) {
    never += n == 0;
    often += n > 1;
  }
  const unsigned long long lost = s.lost_total();
  std::printf("%u allocations failed; never %lu, more than once %lu; produced %llu, delivered %llu, lost %llu\n",
              failed.load(), never, often, static_cast<unsigned long long>(s.produced),
              static_cast<unsigned long long>(s.delivered), lost);
  return failed != 0 && often == 0 && never <= lost && s.produced == s.delivered + lost ? 0 : 1;
}
