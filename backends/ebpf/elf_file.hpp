// SPDX-License-Identifier: Apache-2.0
// A library's file: the functions of the driver that it exports, with their offsets in the file, and its search path
// for other libraries. By libelf; the file may be anybody's, so that everything in it is only believed as far as it was
// checked, and a file that is not root's is parsed by a process without any rights (without_rights.hpp).
#pragma once

#include <fcntl.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "without_rights.hpp"

namespace cutrace_ebpf {

/// A function at one place of the file. Several symbols may name it.
struct driver_function {
  std::string name;
  std::uint64_t offset = 0;  ///< in the file
  std::vector<std::string> other_names;
};

/// `cu` and a capital letter: what NVIDIA calls the functions of its driver's API.
inline bool is_driver_name(const char* name) noexcept {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

/// An open file, by what it is rather than by its path, which may lead elsewhere later.
class opened_file {
 public:
  opened_file() = default;
  /// @throws std::runtime_error
  explicit opened_file(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    struct stat known {};
    const bool found = fd_ >= 0 && ::fstat(fd_, &known) == 0;
    if (!found || !S_ISREG(known.st_mode)) {  // a pipe would be waited for, and a device may do anything
      const std::string why = found ? "no regular file" : std::strerror(errno);
      close();
      throw std::runtime_error(path + ": " + why);
    }
    device_ = known.st_dev;
    inode_ = known.st_ino;
    roots_ = known.st_uid == 0;
  }
  ~opened_file() { close(); }
  opened_file(opened_file&& from) noexcept { *this = std::move(from); }
  opened_file& operator=(opened_file&& from) noexcept {
    std::swap(path_, from.path_);
    std::swap(fd_, from.fd_);
    std::swap(device_, from.device_);
    std::swap(inode_, from.inode_);
    std::swap(roots_, from.roots_);
    return *this;
  }
  opened_file(const opened_file&) = delete;
  opened_file& operator=(const opened_file&) = delete;

  int fd() const noexcept { return fd_; }
  const std::string& path() const noexcept { return path_; }
  /// Device and inode: the same for all paths to the file.
  std::pair<dev_t, ino_t> identity() const noexcept { return {device_, inode_}; }
  /// Root owns the file.
  bool is_roots() const noexcept { return roots_; }

 private:
  void close() noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  std::string path_;
  int fd_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool roots_ = false;
};

/// On x86: the instruction begins with a lock or segment prefix. The kernel does not execute such an instruction out of
/// line, so cannot probe it (arch/x86/kernel/uprobes.c, is_prefix_bad).
inline bool begins_with_prefix(const opened_file& file, std::uint64_t offset) {
  unsigned char byte = 0;
  if (::pread(file.fd(), &byte, 1, static_cast<off_t>(offset)) != 1) return false;
  return byte == 0xf0 || byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e;
}

/// The parser itself, by libelf.
class elf_parser {
 public:
  /// `file` stays open meanwhile. @throws std::runtime_error where it is no 64-bit ELF file of this machine
  explicit elf_parser(const opened_file& file) : path_(file.path()) {
    ::elf_version(EV_CURRENT);
    elf_ = ::elf_begin(file.fd(), ELF_C_READ_MMAP, nullptr);
    GElf_Ehdr head{};
    if (elf_ == nullptr || ::elf_kind(elf_) != ELF_K_ELF || ::gelf_getehdr(elf_, &head) == nullptr ||
        ::gelf_getclass(elf_) != ELFCLASS64 || head.e_machine != own_machine) {
      if (elf_ != nullptr) ::elf_end(elf_);
      throw std::runtime_error(path_ + ": no library of this machine");
    }
  }
  ~elf_parser() { ::elf_end(elf_); }
  elf_parser(const elf_parser&) = delete;
  elf_parser& operator=(const elf_parser&) = delete;

  /// Calls `use(name, offset in the file)` for each exported function. False: there is no table of symbols.
  template <class Use>
  bool exported_functions(Use use) const {
    return for_each_function(SHT_DYNSYM, use);
  }
  /// The same for each function of the full symbol table, exported ones among them; none where the file was stripped.
  template <class Use>
  void inner_functions(Use use) const {
    for_each_function(SHT_SYMTAB, use);
  }

  /// DT_RPATH or DT_RUNPATH, empty: it has none.
  std::string search_path() const {
    GElf_Shdr head{};
    Elf_Scn* const section = find_section(SHT_DYNAMIC, head);
    Elf_Data* const data = section != nullptr ? ::elf_getdata(section, nullptr) : nullptr;
    if (data == nullptr || head.sh_entsize == 0) return {};
    std::string old_way, way;
    for (std::size_t i = 0; i < data->d_size / head.sh_entsize; ++i) {
      GElf_Dyn d{};
      if (::gelf_getdyn(data, static_cast<int>(i), &d) == nullptr || d.d_tag == DT_NULL) break;
      if (d.d_tag != DT_RPATH && d.d_tag != DT_RUNPATH) continue;
      const char* const text = ::elf_strptr(elf_, head.sh_link, d.d_un.d_val);
      if (text != nullptr) (d.d_tag == DT_RPATH ? old_way : way) = text;
    }
    return way.empty() ? old_way : way;
  }

  /// Calls `use(offset, bytes)`, both in the file, for each part that is mapped to be executed.
  template <class Use>
  void executable_parts(Use use) const {
    for_each_executable([&](const GElf_Phdr& p) {
      use(p.p_offset, p.p_filesz);
      return true;
    });
  }

 private:
  static constexpr std::size_t symbol_limit = 1u << 20;
#if defined(__x86_64__)
  static constexpr unsigned own_machine = EM_X86_64;
#else
  static constexpr unsigned own_machine = EM_AARCH64;
#endif

  Elf_Scn* find_section(GElf_Word type, GElf_Shdr& head) const {
    for (Elf_Scn* s = nullptr; (s = ::elf_nextscn(elf_, s)) != nullptr;)
      if (::gelf_getshdr(s, &head) != nullptr && head.sh_type == type) return s;
    return nullptr;
  }

  /// Calls `use(name, offset in the file)` for each function of a table in an executable segment. False: no such table.
  template <class Use>
  bool for_each_function(GElf_Word table, Use use) const {
    GElf_Shdr head{};
    Elf_Scn* const symbols = find_section(table, head);
    Elf_Data* const data = symbols != nullptr ? ::elf_getdata(symbols, nullptr) : nullptr;
    if (data == nullptr || head.sh_entsize == 0) return false;
    const std::size_t count = std::min<std::size_t>(data->d_size / head.sh_entsize, symbol_limit);
    for (std::size_t i = 0; i < count; ++i) {
      GElf_Sym s{};
      if (::gelf_getsym(data, static_cast<int>(i), &s) == nullptr || s.st_shndx == SHN_UNDEF ||
          GELF_ST_TYPE(s.st_info) != STT_FUNC || (table == SHT_DYNSYM && GELF_ST_BIND(s.st_info) == STB_LOCAL))
        continue;
      const char* const name = ::elf_strptr(elf_, head.sh_link, s.st_name);
      std::uint64_t offset = 0;
      if (name != nullptr && *name != '\0' && offset_of(s.st_value, offset)) use(name, offset);
    }
    return true;
  }

  /// Calls `use(segment)` for each executable segment, until `use` returns false.
  template <class Use>
  void for_each_executable(Use use) const {
    std::size_t count = 0;
    if (::elf_getphdrnum(elf_, &count) != 0) return;
    for (std::size_t i = 0; i < count; ++i) {
      GElf_Phdr p{};
      if (::gelf_getphdr(elf_, static_cast<int>(i), &p) == nullptr || p.p_type != PT_LOAD || (p.p_flags & PF_X) == 0)
        continue;
      if (!use(p)) return;
    }
  }

  /// Sets the offset in the file of an address in an executable segment. False: the address is in none.
  bool offset_of(std::uint64_t address, std::uint64_t& offset) const {
    bool found = false;
    for_each_executable([&](const GElf_Phdr& p) {
      if (address < p.p_vaddr || address - p.p_vaddr >= p.p_filesz) return true;
      offset = address - p.p_vaddr + p.p_offset;
      found = true;
      return false;
    });
    return found;
  }

  std::string path_;
  Elf* elf_ = nullptr;
};

/// What is wanted of an ELF file.
class elf_file {
 public:
  struct part {
    std::uint64_t offset, bytes;  ///< in the file
  };

  /// @param inner functions that are not exported are wanted, too. @throws std::runtime_error where the file is none
  /// that this machine executes
  explicit elf_file(const opened_file& file, bool inner = false) : path_(file.path()) {
    const auto parse = [&](found_facts& to) {
      const elf_parser elf(file);
      to.add('d', 0, 0, elf.search_path());
      elf.executable_parts([&](std::uint64_t offset, std::uint64_t bytes) { to.add('p', offset, bytes, {}); });
      if (elf.exported_functions([&](const char* name, std::uint64_t at) { to.add('f', at, 0, name); }))
        to.add('t', 0, 0, {});
      if (inner) elf.inner_functions([&](const char* name, std::uint64_t at) { to.add('i', at, 0, name); });
    };
    if (file.is_roots())
      parse(facts_);
    else
      facts_ = parse_without_rights(path_, parse);
  }

  /// All exported functions that have a driver's name, by their offsets. Where several symbols name one function, the
  /// shortest is its name. @throws std::runtime_error where there is no table of symbols
  std::vector<driver_function> driver_functions() const {
    std::map<std::uint64_t, std::vector<std::string>> at;
    bool has_table = false;
    facts_.for_each([&](char kind, std::uint64_t offset, std::uint64_t, const char* name) {
      has_table = has_table || kind == 't';
      if (kind == 'f' && is_driver_name(name)) at[offset].push_back(name);
    });
    if (!has_table) throw std::runtime_error(path_ + ": no table of exported symbols");
    std::vector<driver_function> all;
    for (auto& [offset, names] : at) {
      std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
        return a.size() != b.size() ? a.size() < b.size() : a < b;
      });
      names.erase(std::unique(names.begin(), names.end()), names.end());  // versions of a symbol at one place
      driver_function f;
      f.name = names.front();
      f.offset = offset;
      f.other_names.assign(names.begin() + 1, names.end());
      all.push_back(std::move(f));
    }
    return all;
  }

  /// Where the exported function of that name begins, 0: there is none.
  std::uint64_t function_offset(const char* symbol) const {
    std::uint64_t found = 0;
    facts_.for_each([&](char kind, std::uint64_t offset, std::uint64_t, const char* name) {
      if (kind == 'f' && std::strcmp(name, symbol) == 0) found = offset;
    });
    return found;
  }

  /// Calls `use(name, offset)` for each function that a symbol names, exported ones first; a name may come twice.
  template <class Use>
  void all_functions(Use use) const {
    facts_.for_each([&](char kind, std::uint64_t offset, std::uint64_t, const char* name) {
      if (kind == 'f' || kind == 'i') use(name, offset);
    });
  }

  /// DT_RPATH or DT_RUNPATH, empty: it has none.
  std::string search_path() const {
    std::string path;
    facts_.for_each([&](char kind, std::uint64_t, std::uint64_t, const char* text) {
      if (kind == 'd') path = text;
    });
    return path;
  }

  /// What is mapped to be executed.
  std::vector<part> executable_parts() const {
    std::vector<part> all;
    facts_.for_each([&](char kind, std::uint64_t offset, std::uint64_t bytes, const char*) {
      if (kind == 'p') all.push_back({offset, bytes});
    });
    return all;
  }

 private:
  std::string path_;
  found_facts facts_;
};

}  // namespace cutrace_ebpf
