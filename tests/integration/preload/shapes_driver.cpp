// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 of the tests of hooked calls: nothing but ways to be called.
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <initializer_list>

#include "shapes.hpp"

#if defined(SHAPES_WITH_ANOTHER)
extern "C" std::uint64_t cuAddedAfterwards(std::uint64_t a, std::uint64_t b);
#endif

namespace {

enum function : unsigned {
#define NUMBER(name, result, arguments) at_##name,
  SHAPES_EXPORTED(NUMBER) SHAPES_HIDDEN(NUMBER) at_cuAddedAfterwards,
  function_count
};
constexpr const char* names[function_count] = {
#define NAME(name, result, arguments) #name,
    SHAPES_EXPORTED(NAME) SHAPES_HIDDEN(NAME) "cuAddedAfterwards"};
std::atomic<std::uint64_t> entered[function_count];
void count(function f) { entered[f].fetch_add(1, std::memory_order_relaxed); }

// Behind cuGetProcAddress alone: no symbol.
std::uint64_t hidden(std::uint64_t a, double b) {
  count(at_cuHidden);
  return shapes::all_of(a, b);
}
int hidden_per_thread(int a) {
  count(at_cuHiddenEither);
  return a + 1000;
}
int hidden_legacy(int a) {
  count(at_cuHiddenEither);
  return a + 2000;
}

int address_of(const char* name, void** function, int version, std::uint64_t flags) {
  if (version < 1000) return 1;
#define OFFER(n, result, arguments)          \
  if (std::strcmp(name, #n) == 0) {          \
    *function = reinterpret_cast<void*>(&n); \
    return 0;                                \
  }
  if (std::strcmp(name, "cuGetProcAddress") == 0 && version >= 12000) name = "cuGetProcAddress_v2";
  SHAPES_EXPORTED(OFFER)
#if defined(SHAPES_WITH_ANOTHER)
  OFFER(cuAddedAfterwards, , )
#endif
  *function = nullptr;
  if (std::strcmp(name, "cuHidden") == 0) *function = reinterpret_cast<void*>(&hidden);
  if (std::strcmp(name, "cuHiddenEither") == 0)
    *function = reinterpret_cast<void*>((flags & 2) != 0 ? &hidden_per_thread : &hidden_legacy);
  return *function != nullptr ? 0 : 500;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  count(at_cuInit);
  return 0;
}
std::uint64_t cuLeaf(std::uint64_t v) {
  count(at_cuLeaf);
  return shapes::all_of(v);
}
std::uint64_t cuEleven(void* f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h,
                       void* stream, void** parameters, void** extra) {
  count(at_cuEleven);
  const auto word = [](const void* p) { return reinterpret_cast<std::uint64_t>(p); };
  return shapes::all_of(word(f), std::uint64_t{a}, std::uint64_t{b}, std::uint64_t{c}, std::uint64_t{d},
                        std::uint64_t{e}, std::uint64_t{g}, std::uint64_t{h}, word(stream), word(parameters),
                        word(extra));
}
std::uint64_t cuSixteenWords(long a, long b, long c, long d, long e, long f, shapes::block64 block, long g, long h,
                             long i, long j, long k, long l, long m, long n) {
  count(at_cuSixteenWords);
  std::uint64_t sum = shapes::all_of(block);
  for (const long v : {a, b, c, d, e, f, g, h, i, j, k, l, m, n})
    sum = shapes::mixed(sum, static_cast<std::uint64_t>(v));
  return sum;
}
double cuDouble(float a, double b, int c, double d, double e, double f, double g, double h, double i, double j,
                double k, long l) {
  count(at_cuDouble);
  return static_cast<double>(a) * b + c * d - e / f + g * h - i + j * k + static_cast<double>(l);
}
float cuFloat(float a, float b) {
  count(at_cuFloat);
  return a / b;
}
std::uint64_t cuBlock(void* out, shapes::block64 block, unsigned flags) {
  count(at_cuBlock);
  return shapes::all_of(reinterpret_cast<std::uint64_t>(out), block, std::uint64_t{flags});
}
shapes::block64 cuReturnBlock(unsigned char first) {
  count(at_cuReturnBlock);
  shapes::block64 b;
  for (unsigned char& c : b.bytes) c = first++;
  return b;
}
shapes::two_words cuTwoWords(std::uint64_t v) {
  count(at_cuTwoWords);
  return {v + 1, ~v};
}
shapes::two_doubles cuTwoDoubles(double v) {
  count(at_cuTwoDoubles);
  return {v / 3, v * 3};
}
shapes::word_and_double cuWordAndDouble(std::uint64_t a, double b) {
  count(at_cuWordAndDouble);
  return {a * 3, b / 7};
}
std::uint64_t cuVariadic(int n, ...) {
  count(at_cuVariadic);
  va_list more;
  va_start(more, n);
  std::uint64_t sum = 1;
  for (int i = 0; i < n; ++i)
    sum = i % 2 == 0 ? shapes::mixed(sum, va_arg(more, double)) : shapes::mixed(sum, va_arg(more, std::uint64_t));
  va_end(more);
  return sum;
}
int cuSetErrno(int value) {
  count(at_cuSetErrno);
  errno = value;
  return 0;
}
int cuReadErrno() {
  count(at_cuReadErrno);
  return errno;
}
int cuCallback(void (*call)(void*), void* with) {
  count(at_cuCallback);
  call(with);
  return 0;
}
std::uint64_t cuNested(std::uint64_t v) {
  count(at_cuNested);
  return shapes_helper(v) + 1;
}
int cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  count(at_cuGetProcAddress);
  return address_of(name, function, version, flags);
}
int cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags, int* status) {
  count(at_cuGetProcAddress_v2);
  const int result = address_of(name, function, version, flags);
  if (status != nullptr) *status = result == 0 ? 0 : 1;
  return result;
}
#if defined(SHAPES_WITH_ANOTHER)
std::uint64_t cuAddedAfterwards(std::uint64_t a, std::uint64_t b) {
  count(at_cuAddedAfterwards);
  return shapes::all_of(a, b);
}
#endif
std::uint64_t shapes_calls(const char* name) {
  for (unsigned f = 0; f < function_count; ++f)
    if (std::strcmp(name, names[f]) == 0) return entered[f].load(std::memory_order_relaxed);
  return 0;
}
}
