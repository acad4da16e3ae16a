// SPDX-License-Identifier: Apache-2.0
// Compiled four times into one program: markers on and off, C++17 and C++20. PART names the copy.
#include <cutrace/cutrace.hpp>

#define TEXT_2(x) #x
#define TEXT(x) TEXT_2(x)
#define JOIN_2(a, b) a##b
#define JOIN(a, b) JOIN_2(a, b)

// The same type by name in every copy, but not the same type: mixing them up must be a linker error, never a crash.
unsigned long JOIN(span_size_, PART)() { return sizeof(cutrace::span); }

void JOIN(run_, PART)(unsigned long long request) {
  CUTRACE_STAGE(TEXT(PART), request);
  { CUTRACE_STAGE("inner of " TEXT(PART)); }
  cutrace::span waiting = CUTRACE_SPAN("span of " TEXT(PART), request);
  waiting.end();
}
