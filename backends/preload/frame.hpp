// SPDX-License-Identifier: Apache-2.0
// What differs between architectures: struct call_frame, which holds what the trampoline saved of a call that is being
// made, and frame_places. All of it comes from the one file of the architecture, which the build names.
#pragma once

#include <cutrace/config.hpp>

#if !defined(CUTRACE_TRAMPOLINE)
#error "cutrace: the preload library has no trampoline for this architecture: it needs one file, trampoline_<name>.S"
#else
#include CUTRACE_TRAMPOLINE
#endif
