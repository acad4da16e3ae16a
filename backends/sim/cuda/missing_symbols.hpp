// SPDX-License-Identifier: Apache-2.0
// Makes dlsym not find some exported functions of the library that calls it, as in an older version of that library:
// their entries in the library's own dynamic symbol table are marked undefined.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

namespace standin {

/// `inside` is any address in the library. Returns how many of the names were found and hidden.
inline std::size_t hide_symbols(void* inside, const std::vector<std::string>& names) {
  Dl_info info;
  void* map_of = nullptr;
  if (names.empty() || dladdr1(inside, &info, &map_of, RTLD_DL_LINKMAP) == 0) return 0;
  const auto* map = static_cast<const link_map*>(map_of);
  const char* strings = nullptr;
  for (const ElfW(Dyn)* d = map->l_ld; d->d_tag != DT_NULL; ++d) {
    if (d->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(d->d_un.d_ptr);
  }
  if (strings == nullptr) return 0;
  std::size_t hidden = 0;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (const std::string& name : names) {
    void* handle = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    const ElfW(Sym)* found = nullptr;
    void* extra = nullptr;
    Dl_info of;
    void* address = handle != nullptr ? dlsym(handle, name.c_str()) : nullptr;
    if (address != nullptr && dladdr1(address, &of, &extra, RTLD_DL_SYMENT) != 0 && of.dli_fbase == info.dli_fbase)
      found = static_cast<const ElfW(Sym)*>(extra);
    if (handle != nullptr) dlclose(handle);
    if (found == nullptr || name != strings + found->st_name) continue;
    auto* entry = const_cast<ElfW(Sym)*>(found);
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(entry) & ~(page - 1);
    const std::size_t bytes = reinterpret_cast<std::uintptr_t>(entry + 1) - begin;  // may lie across two pages
    void* first = reinterpret_cast<void*>(begin);
    if (mprotect(first, bytes, PROT_READ | PROT_WRITE) != 0) continue;
    entry->st_shndx = SHN_UNDEF;
    entry->st_value = 0;
    mprotect(first, bytes, PROT_READ);
    ++hidden;
  }
  return hidden;
}

}  // namespace standin
