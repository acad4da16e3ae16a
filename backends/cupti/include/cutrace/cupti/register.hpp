// SPDX-License-Identifier: Apache-2.0
// Registers the CUPTI backend with cutrace's runtime in this program or library. Without CMake, include it after
// runtime.hpp in the one source file that compiles the runtime; the CMake target cutrace::cupti compiles it by itself.
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
