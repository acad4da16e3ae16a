// SPDX-License-Identifier: Apache-2.0
// libcutrace_inject.so: the driver loads it when CUDA_INJECTION64_PATH names it, and calls InitializeInjection while
// CUDA starts; NVTX loads it when NVTX_INJECTION64_PATH names it, at its first call. Whoever comes first opens a
// session from the environment, so that a program that knows nothing of cutrace is traced.
#include <cutrace/cupti/register.hpp>
#include <cutrace/run/outside_session.hpp>

using cutrace::detail::outside_session;

/// By this symbol a session that emits NVTX ranges sees that the NVTX tool it found is cutrace itself.
extern "C" __attribute__((visibility("default"), used)) const char cutrace_injected_library = 1;

// void cutrace_call_joins(uint64_t): does nothing. `cutrace run --method all` sets a probe on it, which reads from the
// argument CUPTI's correlation id of the call that the thread is in. It begins with the instruction that the kernel
// replaces by a jump instead of a trap: a nop of five bytes, on x86-64 from Linux 6.18 on.
__asm__(
    ".pushsection .text\n"
    ".globl cutrace_call_joins\n"
    ".type cutrace_call_joins, %function\n"
    "cutrace_call_joins:\n"
#if defined(__x86_64__)
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
#else
    "nop\n"
#endif
    "ret\n"
    ".size cutrace_call_joins, .-cutrace_call_joins\n"
    ".popsection\n");
/// Called by the driver, once, before the first CUDA call of the program returns.
extern "C" __attribute__((visibility("default"))) int InitializeInjection(void) {
  if (outside_session::wanted())
    outside_session::open("injected", nullptr, []() noexcept { cutrace::cupti::loaded_by_driver() = true; });
  return 1;
}

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(cutrace::nvtx::get_export_table tables) {
  return outside_session::attach_nvtx(tables, "injected", nullptr);
}

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    cutrace::nvtx::extension_module* module) {
  return outside_session::attach_nvtx(module);
}
