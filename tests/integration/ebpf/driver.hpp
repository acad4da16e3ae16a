// SPDX-License-Identifier: Apache-2.0
// What libcuda.so.1 of these tests exports.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
std::uint64_t cuLeaf(std::uint64_t);
std::uint64_t cuLeafAgain(std::uint64_t);
/// cuLeaf, then cuMiddle, which calls cuLeaf.
std::uint64_t cuNested(std::uint64_t);
std::uint64_t cuMiddle(std::uint64_t);
/// Calls itself until so many calls are open.
std::uint64_t cuDeep(std::uint64_t);
int cuCallback(void (*)(void*), void*);
int cuAsk(int device, unsigned request, void* block);
/// One ioctl, then cuAsk, then another one.
int cuAskNested(int device, unsigned request, void* block);
int cuSleep(unsigned us);
int cuYield();
int cuWaitForEver();
int cuLocked();
int cuMemGetInfo_v2(std::size_t*, std::size_t*);
int cuMemAlloc_v2(std::uint64_t*, std::size_t);
int cuMemcpy2D_v2(const void*);
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
int cuGetProcAddress_v2(const char*, void**, int, std::uint64_t, int*);
}
