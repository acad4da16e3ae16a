// SPDX-License-Identifier: Apache-2.0
// libcutrace_inject.so: the driver loads it when CUDA_INJECTION64_PATH names it, and calls InitializeInjection while
// CUDA starts; NVTX loads it when NVTX_INJECTION64_PATH names it, at its first call. Whoever comes first opens a
// session from the environment, so that a program that knows nothing of cutrace is traced.
#include <cutrace/cupti/register.hpp>
#include <cutrace/detail/outside_session.hpp>
#include <cutrace/runtime.hpp>

using cutrace::detail::outside_session;

/// Tells a session that emits NVTX that the tool which it found is this one.
extern "C" __attribute__((visibility("default"), used)) const char cutrace_injected_library = 1;

/// Called by the driver, once, before the first CUDA call of the program returns.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  if (outside_session::wanted())
    outside_session::open("injected", nullptr, []() noexcept { cutrace::cupti::loaded_by_driver() = true; });
  return 1;
}

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(cutrace::nvtx::get_export_table tables) {
  return outside_session::attach_nvtx(tables, "injected", nullptr);
}
