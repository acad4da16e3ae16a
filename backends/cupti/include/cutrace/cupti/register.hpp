// SPDX-License-Identifier: Apache-2.0
// Makes the CUPTI backend known to the runtime of this object. Included behind runtime.hpp in the one source file that
// compiles the runtime; the CMake target does so by itself.
#pragma once

#include <cutrace/cupti/cupti_backend.hpp>
#include <cutrace/run/backend_registry.hpp>

namespace {
// Constructed before the program's globals: a session may be one of them and must find the backend.
__attribute__((init_priority(101))) const cutrace::detail::backend_registration cutrace_cupti_registration{
    "cupti", true, []() -> cutrace::backend* {
      using cutrace::cupti::callbacks;
      return new cutrace::cupti::cupti_backend(&callbacks::on_call<cutrace::detail::session_writer>);
    }};
}  // namespace
