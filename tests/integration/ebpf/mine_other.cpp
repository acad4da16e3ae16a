// SPDX-License-Identifier: Apache-2.0
// Another file of the library, with a static function of the same name as one of mine.cpp.
#include "mine.hpp"

namespace {
long twice(long v) __asm__("mine_twice");
long twice(long v) { return v + v; }
}  // namespace

extern "C" {
long mine_doubles_too(long v) { return twice(v); }
}
