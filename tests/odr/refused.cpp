// SPDX-License-Identifier: Apache-2.0
// Misuse, one case each. CASE 0 is the control: the same shapes, used as they should be.
#include <cstdint>
#include <cutrace/cutrace.hpp>
#include <utility>

void use(const char* name, const std::uint64_t* ids, std::size_t n) {
#if CASE == 0
  CUTRACE_STAGE("literal");
  CUTRACE_STAGE("literal", 7);
  CUTRACE_STAGE_DYNAMIC(name);
  CUTRACE_STAGE_BATCH("batch", ids, n);
  CUTRACE_MARK("literal");
  cutrace::span a = CUTRACE_SPAN("span");
  cutrace::span b = std::move(a);
#elif CASE == 1  // the record holds the call site's id: a name that changes would be recorded wrongly
  CUTRACE_STAGE(name);
#elif CASE == 2
  CUTRACE_MARK(name);
#elif CASE == 3
  CUTRACE_STAGE_BATCH(name, ids, n);
#elif CASE == 4  // pinned to its scope
  cutrace::scoped_stage a(cutrace::scoped_stage::dynamic("stage"));
  cutrace::scoped_stage b(a);
#elif CASE == 5
  cutrace::scoped_stage a(cutrace::scoped_stage::dynamic("stage"));
  cutrace::scoped_stage b(std::move(a));
#elif CASE == 6
  auto* a = new cutrace::scoped_stage(cutrace::scoped_stage::dynamic("stage"));
#elif CASE == 7  // one owner
  cutrace::span a = CUTRACE_SPAN("span");
  cutrace::span b = a;
#elif CASE == 8
  cutrace::context c = cutrace::context::capture();
  auto* a = new cutrace::adopted_stage(c);
#elif CASE == 9  // ids of 32 bits cannot be copied as 64-bit words
  const std::uint32_t narrow[2] = {1, 2};
  CUTRACE_STAGE_BATCH("batch", narrow, 2);
#elif CASE == 10
  cutrace::session a;
  cutrace::session b(a);
#else
#error "no such case"
#endif
  static_cast<void>(name);
  static_cast<void>(ids);
  static_cast<void>(n);
}
