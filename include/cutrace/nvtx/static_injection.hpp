// SPDX-License-Identifier: Apache-2.0
// Brings the NVTX ranges of a program into its own session, without NVTX_INJECTION64_PATH: include it in one source
// file of the executable, before any header of NVTX. Ranges are recorded while a session is open. What
// NVTX_INJECTION64_PATH names comes first, and NVTX then asks no one else. Ranges of shared libraries are not recorded:
// each library has an instance of NVTX of its own, which looks only into itself.
#pragma once

#if defined(NVTX_VERSION) && !defined(NVTX_STATIC_INJECTION_IMPL)
#error "include cutrace/nvtx/static_injection.hpp before the headers of NVTX"
#endif
// NVTX would define the pointers below itself, empty; this is its way to learn that somebody else does.
#ifndef NVTX_STATIC_INJECTION_IMPL
#define NVTX_STATIC_INJECTION_IMPL
#endif

#include <cutrace/config.hpp>

#if CUTRACE_ENABLED

#include <cutrace/nvtx/ingest.hpp>

struct nvtxExtModuleInfo_t;  // NVTX's: so the second pointer has the type that the headers of extensions expect

extern "C" {
extern cutrace::nvtx::initialize_injection InitializeInjectionNvtx2_fnptr;
cutrace::nvtx::initialize_injection InitializeInjectionNvtx2_fnptr = [](cutrace::nvtx::get_export_table tables) -> int {
  return cutrace::nvtx::ingest::attach(tables) ? 1 : 0;
};
extern int (*InitializeInjectionNvtxExtension_fnptr)(nvtxExtModuleInfo_t*);
int (*InitializeInjectionNvtxExtension_fnptr)(nvtxExtModuleInfo_t*) = [](nvtxExtModuleInfo_t* module) -> int {
  return cutrace::nvtx::ingest::attach(reinterpret_cast<cutrace::nvtx::extension_module*>(module)) ? 1 : 0;
};
}

#endif
