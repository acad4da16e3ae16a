// SPDX-License-Identifier: Apache-2.0
// All objects of the process in the order in which the loader searches them, for code that must not ask the loader.
// None of them can be unloaded while they are used.
#pragma once

#include "elf_image.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

class loaded_objects {
 public:
  static constexpr std::size_t limit = 4096;

  struct changes {
    unsigned long long added = 0, removed = 0;
    bool operator==(const changes& o) const noexcept { return added == o.added && removed == o.removed; }
  };

  /// How many objects have come and gone so far.
  static changes now() noexcept {
    changes c;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
          *static_cast<changes*>(data) = {info->dlpi_adds, info->dlpi_subs};
          return 1;
        },
        &c);
    return c;
  }

  /// Reads the list, then calls `use(*this)` while the list is still right and cannot change. One thread at a time.
  /// False when objects came and went all the time: `use` was not called.
  template <class Use>
  bool with(Use use) noexcept {
    for (int attempt = 0; attempt < 8; ++attempt) {
      count_ = 0;
      dl_iterate_phdr(
          [](dl_phdr_info* info, std::size_t, void* data) { return static_cast<loaded_objects*>(data)->add(*info); },
          this);
      struct visit {
        loaded_objects* self;
        Use* use;
      } v{this, &use};
      const int done = dl_iterate_phdr(
          [](dl_phdr_info* info, std::size_t, void* data) {
            visit& asked = *static_cast<visit*>(data);
            if (!(changes{info->dlpi_adds, info->dlpi_subs} == asked.self->seen_)) return 2;
            (*asked.use)(*asked.self);
            return 1;
          },
          &v);
      if (done == 1) return true;
    }
    return false;
  }

  const elf_image* begin() const noexcept { return images_; }
  const elf_image* end() const noexcept { return images_ + count_; }
  const changes& seen() const noexcept { return seen_; }
  const elf_image* containing(std::uintptr_t address) const noexcept {
    for (const elf_image& i : *this)
      if (i.contains(address)) return &i;
    return nullptr;
  }

 private:
  int add(const dl_phdr_info& info) noexcept {
    seen_ = {info.dlpi_adds, info.dlpi_subs};
    if (count_ < limit) images_[count_++] = elf_image(info);
    return 0;
  }

  elf_image images_[limit] = {};
  std::size_t count_ = 0;
  changes seen_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
