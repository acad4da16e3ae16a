// SPDX-License-Identifier: Apache-2.0
// Makes the CUPTI backend known to the runtime of this object. Included behind runtime.hpp in the one source file that
// compiles it; the CMake target does so by itself.
#pragma once

#include <cutrace/cupti/cupti_backend.hpp>
#include <cutrace/run/backend_registry.hpp>

namespace {
// Before the objects of the program: a session that is a global of another file must find it.
__attribute__((init_priority(101))) const cutrace::detail::backend_registration cutrace_cupti_registration{
    "cupti", true, []() -> cutrace::backend* {
      using cutrace::cupti::callbacks;
      return new cutrace::cupti::cupti_backend(&callbacks::on_call<cutrace::detail::session_writer>);
    }};
}  // namespace
