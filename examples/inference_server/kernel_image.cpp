// SPDX-License-Identifier: Apache-2.0
// Embeds nvcc's output file in the executable, by the assembler's .incbin, so that the program needs no path. The build
// defines CUTRACE_SERVER_KERNEL_FILE as that file's name, or leaves it undefined where there is no nvcc.
#include "kernel_image.hpp"

#if defined(CUTRACE_SERVER_KERNEL_FILE)

// 64: the alignment that nvcc gives embedded fat binaries is 8; a cache line does no harm.
__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden cutrace_server_kernels\n"
    ".global cutrace_server_kernels\n"
    "cutrace_server_kernels:\n"
    ".incbin \"" CUTRACE_SERVER_KERNEL_FILE
    "\"\n"
    ".hidden cutrace_server_kernels_end\n"
    ".global cutrace_server_kernels_end\n"
    "cutrace_server_kernels_end:\n"
    ".byte 0\n"
    ".popsection\n");
extern "C" const unsigned char cutrace_server_kernels[];
extern "C" const unsigned char cutrace_server_kernels_end[];

namespace server {
kernel_image embedded_kernels() {
  return {cutrace_server_kernels, static_cast<std::size_t>(cutrace_server_kernels_end - cutrace_server_kernels)};
}
}  // namespace server

#else

namespace server {
kernel_image embedded_kernels() { return {"", 0}; }
}  // namespace server

#endif
