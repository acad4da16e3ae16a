// SPDX-License-Identifier: Apache-2.0
// Stores into the relocation slots of one object, also where the loader has made them read-only.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf_image.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

/// Whether the page at `address` can be written, by /proc/self/maps; `unknown` where it cannot be read.
enum class page_access { unknown, read_only, writable };
inline page_access access_of(std::uintptr_t address) noexcept {
  const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return page_access::unknown;
  // Lines of "begin-end rwxp ...", read window by window; a line may go on in the next one.
  char window[2048];
  std::uintptr_t bounds[2] = {0, 0};
  unsigned field = 0;  // 0: begin, 1: end, 2: access, 3: the rest
  unsigned column = 0;
  page_access found = page_access::unknown;
  for (ssize_t n = 0; found == page_access::unknown && (n = ::read(file, window, sizeof(window))) > 0;) {
    for (ssize_t i = 0; i < n && found == page_access::unknown; ++i) {
      const char c = window[i];
      if (c == '\n') {
        field = column = 0;
        bounds[0] = bounds[1] = 0;
      } else if (field < 2) {
        if (c == '-' || c == ' ')
          ++field;
        else
          bounds[field] = bounds[field] << 4 | static_cast<std::uintptr_t>(c <= '9' ? c - '0' : c - 'a' + 10);
      } else if (field == 2 && column++ == 1) {
        field = 3;
        if (address >= bounds[0] && address < bounds[1])
          found = c == 'w' ? page_access::writable : page_access::read_only;
      }
    }
  }
  ::close(file);
  return found;
}

class slot_writer {
 public:
  explicit slot_writer(const elf_image& object) noexcept : object_(object) {}
  ~slot_writer() {
    if (opened_) mprotect(reinterpret_cast<void*>(begin_), end_ - begin_, PROT_READ);
  }
  slot_writer(const slot_writer&) = delete;
  slot_writer& operator=(const slot_writer&) = delete;

  /// Whether the loader has made the slot's page read-only, and so has put its last value there. All such pages of an
  /// object become read-only at once: the first answer is that of all its slots.
  bool is_final(const std::uintptr_t* slot) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(slot);
    if (!is_guarded(at)) return false;
    if (access_ == page_access::unknown) access_ = access_of(at);
    return access_ == page_access::read_only;
  }

  /// False where it cannot be stored now: the loader, on another thread, is still at work on this object and would find
  /// its page read-only afterwards; or mprotect failed.
  bool store(std::uintptr_t* slot, std::uintptr_t value) noexcept {
    const auto at = reinterpret_cast<std::uintptr_t>(slot);
    if (is_guarded(at) && !opened_) {
      if ((access_ = access_of(at)) == page_access::writable) return false;
      if (mprotect(reinterpret_cast<void*>(begin_), end_ - begin_, PROT_READ | PROT_WRITE) != 0) return false;
      opened_ = true;
    }
    // Other threads call through the slot meanwhile.
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    return true;
  }

 private:
  bool is_guarded(std::uintptr_t at) noexcept {
    return object_.relro(static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE)), begin_, end_) && at >= begin_ &&
           at < end_;
  }

  const elf_image& object_;
  std::uintptr_t begin_ = 0, end_ = 0;
  page_access access_ = page_access::unknown;  ///< as the loader has left it
  bool opened_ = false;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
