// SPDX-License-Identifier: Apache-2.0
// Replaces the operators new and delete of a program by its own `allocate`. To be included by one file of it.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace test_support {

/// Defined by the program, with memory of malloc or aligned_alloc. `alignment` 0: malloc's. @throws std::bad_alloc
void* allocate(std::size_t bytes, std::size_t alignment);

}  // namespace test_support

void* operator new(std::size_t n) { return test_support::allocate(n, 0); }
void* operator new[](std::size_t n) { return test_support::allocate(n, 0); }
void* operator new(std::size_t n, std::align_val_t a) { return test_support::allocate(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) {
  return test_support::allocate(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
