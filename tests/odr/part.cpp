// SPDX-License-Identifier: Apache-2.0
// Compiled four times into one program: markers on and off (CUTRACE_DISABLE), C++17 and C++20. PART names the copy.
#include <cutrace/cutrace.hpp>

#define TEXT_2(x) #x
#define TEXT(x) TEXT_2(x)
#define JOIN_2(a, b) a##b
#define JOIN(a, b) JOIN_2(a, b)

// With CUTRACE_DISABLE, cutrace::span is another type, in an inline namespace of its own: so the linker cannot take one
// copy's functions for another's. program.cpp compares the sizes.
unsigned long JOIN(span_size_, PART)() { return sizeof(cutrace::span); }

void JOIN(run_, PART)(unsigned long long request) {
  CUTRACE_STAGE(TEXT(PART), request);
  { CUTRACE_STAGE("inner of " TEXT(PART)); }
  cutrace::span waiting = CUTRACE_SPAN("span of " TEXT(PART), request);
  waiting.end();
}
