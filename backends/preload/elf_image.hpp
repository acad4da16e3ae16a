// SPDX-License-Identifier: Apache-2.0
// A loaded object as its dynamic section describes it: segments, symbols, relocations. Reads memory only, takes no lock
// and allocates nothing: it runs in callbacks of dl_iterate_phdr, which hold a lock of the loader.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

/// For code that the preloaded library's dlsym runs before other libraries are ready: a sanitizer looks up the real
/// strcmp through dlsym, and the sanitizer's strcmp would be called here before it has the real one.
namespace early {
inline bool equal(const char* a, const char* b) noexcept {
  for (; *a == *b; ++a, ++b)
    if (*a == '\0') return true;
  return false;
}
inline bool starts_with(const char* text, const char* with) noexcept {
  for (; *with != '\0'; ++text, ++with)
    if (*text != *with) return false;
  return true;
}
}  // namespace early

class elf_image {
 public:
  elf_image() = default;
  explicit elf_image(const dl_phdr_info& info) noexcept
      : base_(info.dlpi_addr), headers_(info.dlpi_phdr), header_count_(info.dlpi_phnum), path_(info.dlpi_name) {
    for (const ElfW(Phdr) & p : segments()) {
      if (p.p_type == PT_DYNAMIC) dynamic_ = reinterpret_cast<const ElfW(Dyn)*>(base_ + p.p_vaddr);
      if (p.p_type != PT_LOAD) continue;
      const std::uintptr_t end = base_ + p.p_vaddr + p.p_memsz;
      if (end > end_) end_ = end;
    }
    if (dynamic_ != nullptr) read_dynamic();
  }

  /// From an entry of the loader's own list: functions can be found, segments are not known.
  explicit elf_image(const link_map& m) noexcept : base_(m.l_addr), path_(m.l_name), dynamic_(m.l_ld) {
    if (dynamic_ != nullptr) read_dynamic();
  }

  /// True where there is a table of symbols to look into.
  bool readable() const noexcept { return symbols_ != nullptr && strings_ != nullptr; }
  std::uintptr_t base() const noexcept { return base_; }
  const void* identity() const noexcept { return dynamic_; }
  const char* soname() const noexcept { return soname_ != nullptr ? soname_ : ""; }
  const char* path() const noexcept { return path_ != nullptr ? path_ : ""; }
  /// Bytes from `base` to the last segment's end: a slot that has not been relocated yet holds a value below that. Not
  /// for an object that was made from a link_map.
  std::uintptr_t span() const noexcept { return end_ - base_; }

  bool contains(std::uintptr_t address) const noexcept { return in_segment(address, 0); }
  bool executes(std::uintptr_t address) const noexcept { return in_segment(address, PF_X); }
  /// The whole pages that the loader makes read-only once the object is relocated; false: none.
  bool relro(std::uintptr_t page, std::uintptr_t& begin, std::uintptr_t& end) const noexcept {
    for (const ElfW(Phdr) & p : segments()) {
      if (p.p_type != PT_GNU_RELRO) continue;
      begin = (base_ + p.p_vaddr) & ~(page - 1);
      end = (base_ + p.p_vaddr + p.p_memsz) & ~(page - 1);
      return begin < end;
    }
    return false;
  }

  /// Address of a function that the object defines and exports under this name (its default version), 0: none.
  std::uintptr_t find_function(const char* name) const noexcept {
    if (!readable()) return 0;
    const ElfW(Sym)* s = gnu_hash_ != nullptr ? find_by_gnu_hash(name) : find_in_all(name);
    return s != nullptr && ELF64_ST_TYPE(s->st_info) == STT_FUNC ? base_ + s->st_value : 0;
  }

  /// Calls `use(name, address)` for each function that it exports.
  template <class Use>
  void for_each_function(Use use) const {
    if (!readable()) return;
    const std::size_t count = symbol_count();
    for (std::size_t i = 0; i < count; ++i) {
      const ElfW(Sym)& s = symbols_[i];
      if (is_exported(i) && ELF64_ST_TYPE(s.st_info) == STT_FUNC) use(strings_ + s.st_name, base_ + s.st_value);
    }
  }

  struct slot {
    std::uintptr_t* place;
    const char* name;
    bool of_call;  ///< of the procedure linkage table: may still lead to the loader, which fills it at the first call
  };

  /// Calls `use(slot)` for each place that holds the address of a function or variable of another object.
  template <class Use>
  void for_each_slot(Use use) const {
    if (!readable()) return;
    walk(calls_, call_count_, use);
    // Most relocations of a library are relative ones (DT_RELACOUNT), which come first: millions in the large ones.
    if (relative_count_ < relocation_count_)
      walk(relocations_ + relative_count_, relocation_count_ - relative_count_, use);
  }

 private:
  struct header_range {
    const ElfW(Phdr) * first;
    std::size_t count;
    const ElfW(Phdr) * begin() const noexcept { return first; }
    const ElfW(Phdr) * end() const noexcept { return first + count; }
  };
  header_range segments() const noexcept { return {headers_, header_count_}; }

  bool in_segment(std::uintptr_t address, ElfW(Word) flag) const noexcept {
    for (const ElfW(Phdr) & p : segments())
      if (p.p_type == PT_LOAD && (p.p_flags & flag) == flag && address >= base_ + p.p_vaddr &&
          address < base_ + p.p_vaddr + p.p_memsz)
        return true;
    return false;
  }

  /// In most objects the loader has turned offsets into addresses. Where the dynamic section is read-only, the value is
  /// still an offset, and less than `base_`.
  template <class T>
  const T* at(ElfW(Addr) value) const noexcept {
    return reinterpret_cast<const T*>(value < base_ ? value + base_ : value);
  }

  void read_dynamic() noexcept {
    std::size_t relocation_bytes = 0, call_bytes = 0, soname = 0;
    bool named = false;
    for (const ElfW(Dyn)* d = dynamic_; d->d_tag != DT_NULL; ++d) {
      switch (d->d_tag) {
        case DT_SYMTAB:
          symbols_ = at<ElfW(Sym)>(d->d_un.d_ptr);
          break;
        case DT_STRTAB:
          strings_ = at<char>(d->d_un.d_ptr);
          break;
        case DT_GNU_HASH:
          gnu_hash_ = at<std::uint32_t>(d->d_un.d_ptr);
          break;
        case DT_HASH:
          hash_ = at<std::uint32_t>(d->d_un.d_ptr);
          break;
        case DT_VERSYM:
          versions_ = at<std::uint16_t>(d->d_un.d_ptr);
          break;
        case DT_RELA:
          relocations_ = at<ElfW(Rela)>(d->d_un.d_ptr);
          break;
        case DT_RELASZ:
          relocation_bytes = d->d_un.d_val;
          break;
        case DT_RELACOUNT:
          relative_count_ = d->d_un.d_val;
          break;
        case DT_JMPREL:
          calls_ = at<ElfW(Rela)>(d->d_un.d_ptr);
          break;
        case DT_PLTRELSZ:
          call_bytes = d->d_un.d_val;
          break;
        case DT_SONAME:
          soname = d->d_un.d_val, named = true;
          break;
        default:
          break;
      }
    }
    if (named && strings_ != nullptr) soname_ = strings_ + soname;
    relocation_count_ = relocations_ != nullptr ? relocation_bytes / sizeof(ElfW(Rela)) : 0;
    call_count_ = calls_ != nullptr ? call_bytes / sizeof(ElfW(Rela)) : 0;
  }

  template <class Use>
  void walk(const ElfW(Rela) * first, std::size_t count, Use& use) const {
    for (std::size_t i = 0; i < count; ++i) {
      const ElfW(Rela)& r = first[i];
      const std::uint64_t type = ELF64_R_TYPE(r.r_info);
#if defined(__x86_64__)
      const bool of_call = type == R_X86_64_JUMP_SLOT;
      const bool of_data = type == R_X86_64_GLOB_DAT || (type == R_X86_64_64 && r.r_addend == 0);
#elif defined(__aarch64__)
      const bool of_call = type == R_AARCH64_JUMP_SLOT;
      const bool of_data = type == R_AARCH64_GLOB_DAT || (type == R_AARCH64_ABS64 && r.r_addend == 0);
#else
#error "cutrace: the types of relocations that fill slots are not known for this architecture"
#endif
      if (!of_call && !of_data) continue;
      const ElfW(Sym)& s = symbols_[ELF64_R_SYM(r.r_info)];
      if (s.st_shndx != SHN_UNDEF) continue;
      use(slot{reinterpret_cast<std::uintptr_t*>(base_ + r.r_offset), strings_ + s.st_name, of_call});
    }
  }

  /// Version number 0 is local; the highest bit marks an old version, which only programs linked long ago ask for.
  bool is_exported(std::size_t i) const noexcept {
    const ElfW(Sym)& s = symbols_[i];
    const unsigned bind = ELF64_ST_BIND(s.st_info);
    return s.st_shndx != SHN_UNDEF && s.st_value != 0 && (bind == STB_GLOBAL || bind == STB_WEAK) &&
           (versions_ == nullptr || ((versions_[i] & 0x8000) == 0 && versions_[i] != 0));
  }

  const ElfW(Sym) * find_by_gnu_hash(const char* name) const noexcept {
    std::uint32_t h = 5381;
    for (const char* c = name; *c != '\0'; ++c) h = h * 33 + static_cast<unsigned char>(*c);
    const std::uint32_t buckets = gnu_hash_[0], first = gnu_hash_[1], bloom_words = gnu_hash_[2];
    const std::uint32_t* bucket = gnu_hash_ + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
    const std::uint32_t* chain = bucket + buckets;
    if (buckets == 0) return nullptr;
    std::uint32_t i = bucket[h % buckets];
    if (i < first) return nullptr;
    for (;; ++i) {
      const std::uint32_t has = chain[i - first];
      if ((has | 1) == (h | 1) && is_exported(i) && early::equal(strings_ + symbols_[i].st_name, name))
        return &symbols_[i];
      if ((has & 1) != 0) return nullptr;
    }
  }

  /// For objects without a GNU hash table, which are rare today: looks at all symbols, whose number DT_HASH gives.
  const ElfW(Sym) * find_in_all(const char* name) const noexcept {
    const std::size_t count = symbol_count();
    for (std::size_t i = 0; i < count; ++i)
      if (is_exported(i) && early::equal(strings_ + symbols_[i].st_name, name)) return &symbols_[i];
    return nullptr;
  }

  /// No entry of the dynamic section gives the number of symbols: the last chain of the hash table does.
  std::size_t symbol_count() const noexcept {
    if (gnu_hash_ == nullptr) return hash_ != nullptr ? hash_[1] : 0;
    const std::uint32_t buckets = gnu_hash_[0], first = gnu_hash_[1], bloom_words = gnu_hash_[2];
    const std::uint32_t* bucket = gnu_hash_ + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4);
    const std::uint32_t* chain = bucket + buckets;
    std::uint32_t last = 0;
    for (std::uint32_t i = 0; i < buckets; ++i) last = bucket[i] > last ? bucket[i] : last;
    if (last < first) return first;
    while ((chain[last - first] & 1) == 0) ++last;
    return std::size_t{last} + 1;
  }

  std::uintptr_t base_ = 0, end_ = 0;
  const ElfW(Phdr) * headers_ = nullptr;
  std::size_t header_count_ = 0;
  const char* path_ = nullptr;
  const ElfW(Dyn) * dynamic_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const char* soname_ = nullptr;
  const std::uint32_t *gnu_hash_ = nullptr, *hash_ = nullptr;
  const std::uint16_t* versions_ = nullptr;
  const ElfW(Rela) * relocations_ = nullptr, *calls_ = nullptr;
  std::size_t relocation_count_ = 0, relative_count_ = 0, call_count_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
