// SPDX-License-Identifier: Apache-2.0
// The backend of the simulated GPU and its registration: the archive of cutrace::sim, or a source file beside
// cutrace_runtime.cpp.
#include <cutrace/compiled.hpp>

#if CUTRACE_ENABLED
#include <cutrace/run/backend_registry.hpp>
#include <cutrace/sim/sim_backend.hpp>

namespace {
// Never automatic: who wants simulated times asks for them, by CUTRACE_BACKEND=sim or session_options::backend.
__attribute__((init_priority(101))) const cutrace::detail::backend_registration cutrace_sim_registration{
    "sim", false, []() -> cutrace::backend* { return new cutrace::sim::sim_backend(); }};
}  // namespace
CUTRACE_ANCHOR(sim)
#endif
