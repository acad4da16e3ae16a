// SPDX-License-Identifier: Apache-2.0
// The driver's library as it is loaded in this process: where it lies, and which functions it exports. Their names are
// read from the library itself, so that a newer driver needs no newer cutrace.
#pragma once

#include <algorithm>
#include <cstring>

#include "elf_image.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

/// `cu` and a capital letter begin the names of the driver's API; other CUDA libraries have their own prefix
/// (cudnnCreate).
inline bool is_driver_name(const char* name) noexcept {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

inline bool is_driver_library(const elf_image& image) noexcept {
  constexpr const char* name = "libcuda.so";
  const char* file = image.path();
  for (const char* c = file; *c != '\0'; ++c)
    if (*c == '/') file = c + 1;
  return image.readable() && (early::starts_with(image.soname(), name) || early::starts_with(file, name));
}

class driver_library {
 public:
  static constexpr std::size_t limit = 8192;

  bool present() const noexcept { return count_ != 0; }
  bool is(const elf_image& image) const noexcept { return present() && image.identity() == image_.identity(); }
  std::size_t exported() const noexcept { return count_; }
  const elf_image& image() const noexcept { return image_; }
  bool executes(std::uintptr_t address) const noexcept { return present() && image_.executes(address); }
  bool contains(std::uintptr_t address) const noexcept { return present() && image_.contains(address); }
  std::uintptr_t find(const char* name) const noexcept { return present() ? image_.find_function(name) : 0; }

  /// Takes over the library and its exports. With process::scanning held; readers take no lock, but scan first.
  void take(const elf_image& image) noexcept {
    image_ = image;
    count_ = 0;
    image.for_each_function([this](const char* name, std::uintptr_t address) {
      if (is_driver_name(name) && count_ < limit) exports_[count_++] = {address, name};
    });
    std::sort(exports_, exports_ + count_, [](const one& a, const one& b) { return a.address < b.address; });
  }

  /// The library is no longer loaded. With process::scanning held.
  void forget() noexcept {
    count_ = 0;
    image_ = {};
  }

  /// Name under which the function at `address` is exported, the wanted one where it has several; null: none.
  const char* name_of(std::uintptr_t address, const char* wanted) const noexcept {
    const one* at = std::lower_bound(exports_, exports_ + count_, address,
                                     [](const one& e, std::uintptr_t a) { return e.address < a; });
    const char* name = nullptr;
    for (; at != exports_ + count_ && at->address == address; ++at)
      if (name == nullptr || (wanted != nullptr && std::strcmp(at->name, wanted) == 0)) name = at->name;
    return name;
  }

 private:
  struct one {
    std::uintptr_t address = 0;
    const char* name = nullptr;
  };
  elf_image image_;
  one exports_[limit] = {};
  std::size_t count_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
