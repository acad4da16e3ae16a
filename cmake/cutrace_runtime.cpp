// SPDX-License-Identifier: Apache-2.0
// The runtime half of cutrace, compiled once in each program or library that links cutrace::cutrace; its sinks are
// compiled beside it. Backends take part by being included here: the build says which ones it has, and no header that
// other files see depends on that.
#define CUTRACE_RUNTIME_WITHOUT_SINKS
#include <cutrace/runtime.hpp>

#if defined(CUTRACE_WITH_CUPTI)
#include <cutrace/cupti/register.hpp>
#endif
#if defined(CUTRACE_WITH_SIM)
#include <cutrace/detail/backend_registry.hpp>
#include <cutrace/sim/sim_backend.hpp>
namespace {
// Never automatic: who wants simulated times asks for them, by CUTRACE_BACKEND=sim or session_options::backend.
__attribute__((init_priority(101))) const cutrace::detail::backend_registration cutrace_sim_registration{
    "sim", false, []() -> cutrace::backend* { return new cutrace::sim::sim_backend(); }};
}  // namespace
#endif
