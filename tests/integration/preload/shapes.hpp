// SPDX-License-Identifier: Apache-2.0
// Functions of an invented driver, one for each way in which the ABI passes arguments and results. Each returns a value
// computed from its arguments, so that a caller can check whether all of them arrived.
#pragma once

#include <cstdint>
#include <cstring>

namespace shapes {

struct block64 {
  unsigned char bytes[64];
};
struct two_words {
  std::uint64_t a, b;
};
struct two_doubles {
  double a, b;
};
struct word_and_double {
  std::uint64_t a;
  double b;
};

inline std::uint64_t mixed(std::uint64_t h, std::uint64_t v) { return (h ^ v) * 0x9e3779b97f4a7c15u + (h >> 29); }
inline std::uint64_t mixed(std::uint64_t h, double v) {
  std::uint64_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return mixed(h, bits);
}
inline std::uint64_t mixed(std::uint64_t h, const block64& b) {
  for (unsigned char c : b.bytes) h = mixed(h, std::uint64_t{c});
  return h;
}
template <class... Values>
std::uint64_t all_of(const Values&... values) {
  std::uint64_t h = 1;
  ((h = mixed(h, values)), ...);
  return h;
}

}  // namespace shapes

/// X(name, result, arguments): what libcuda.so.1 of these tests exports.
#define SHAPES_EXPORTED(X)                                                                                        \
  X(cuInit, int, (unsigned))                                                                                      \
  X(cuLeaf, std::uint64_t, (std::uint64_t))                                                                       \
  X(cuEleven, std::uint64_t,                                                                                      \
    (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**))         \
  X(cuSixteenWords, std::uint64_t,                                                                                \
    (long, long, long, long, long, long, shapes::block64, long, long, long, long, long, long, long, long))        \
  X(cuDouble, double, (float, double, int, double, double, double, double, double, double, double, double, long)) \
  X(cuFloat, float, (float, float))                                                                               \
  X(cuBlock, std::uint64_t, (void*, shapes::block64, unsigned))                                                   \
  X(cuReturnBlock, shapes::block64, (unsigned char))                                                              \
  X(cuTwoWords, shapes::two_words, (std::uint64_t))                                                               \
  X(cuTwoDoubles, shapes::two_doubles, (double))                                                                  \
  X(cuWordAndDouble, shapes::word_and_double, (std::uint64_t, double))                                            \
  X(cuVariadic, std::uint64_t, (int, ...))                                                                        \
  X(cuSetErrno, int, (int))                                                                                       \
  X(cuReadErrno, int, ())                                                                                         \
  X(cuCallback, int, (void (*)(void*), void*))                                                                    \
  X(cuNested, std::uint64_t, (std::uint64_t))                                                                     \
  X(cuGetProcAddress, int, (const char*, void**, int, std::uint64_t))                                             \
  X(cuGetProcAddress_v2, int, (const char*, void**, int, std::uint64_t, int*))

/// And what only cuGetProcAddress knows.
#define SHAPES_HIDDEN(X)                              \
  X(cuHidden, std::uint64_t, (std::uint64_t, double)) \
  X(cuHiddenEither, int, (int))

extern "C" {
#define SHAPES_DECLARE(name, result, arguments) result name arguments;
SHAPES_EXPORTED(SHAPES_DECLARE)
/// How often a function was entered, whoever called it.
std::uint64_t shapes_calls(const char* name);
/// Of libshapes_helper.so, through which cuNested comes back into the driver.
std::uint64_t shapes_helper(std::uint64_t);
}
