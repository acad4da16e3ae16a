// SPDX-License-Identifier: Apache-2.0
#include "kernel_catalog.hpp"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace cutrace_ebpf {

namespace {

constexpr const char* kernel_itself = "vmlinux";
constexpr const char* tracepoint_prefix = "btf_trace_";
constexpr const char* caller_prefix = "__traceiter_";  // of functions that call a tracepoint; they name its arguments
constexpr int type_depth = 16;                         ///< of modifiers and pointers, more than any type has

const char* name_of(const btf* b, const btf_type* t) {
  const char* const name = ::btf__name_by_offset(b, t->name_off);
  return name != nullptr ? name : "";
}

/// Behind typedefs and qualifiers; null for void.
const btf_type* bare(const btf* b, std::uint32_t id) {
  for (int i = 0; i < type_depth && id != 0; ++i) {
    const btf_type* const t = ::btf__type_by_id(b, id);
    if (t == nullptr) return nullptr;
    if (!btf_is_mod(t) && !btf_is_typedef(t) && btf_kind(t) != BTF_KIND_TYPE_TAG) return t;
    id = t->type;
  }
  return nullptr;
}

std::string text_of(const btf* b, std::uint32_t id, int depth = 0) {
  if (id == 0) return "void";
  const btf_type* const t = ::btf__type_by_id(b, id);
  if (t == nullptr || depth > type_depth) return "?";
  const auto inner = [&] { return text_of(b, t->type, depth + 1); };
  switch (btf_kind(t)) {
    case BTF_KIND_PTR: {
      const std::string to = inner();
      if (to.back() == ')') return to;  // a function stands there as a pointer already
      return to + (to.back() == '*' ? "*" : " *");
    }
    case BTF_KIND_CONST:
      return "const " + inner();
    case BTF_KIND_VOLATILE:
      return "volatile " + inner();
    case BTF_KIND_RESTRICT:
    case BTF_KIND_TYPE_TAG:
      return inner();
    case BTF_KIND_STRUCT:
      return std::string("struct ") + name_of(b, t);
    case BTF_KIND_UNION:
      return std::string("union ") + name_of(b, t);
    case BTF_KIND_FWD:
      return std::string(btf_kflag(t) ? "union " : "struct ") + name_of(b, t);
    case BTF_KIND_ENUM:
    case BTF_KIND_ENUM64:
      return std::string("enum ") + name_of(b, t);
    case BTF_KIND_ARRAY:
      return text_of(b, btf_array(t)->type, depth + 1) + " *";
    case BTF_KIND_FUNC_PROTO:
      return inner() + " (*)()";
    default:
      return name_of(b, t);
  }
}

typed_value value_of(const btf* b, std::uint32_t id, const char* name) {
  typed_value v;
  v.name = name != nullptr ? name : "";
  v.type = text_of(b, id);
  const btf_type* const t = bare(b, id);
  if (t == nullptr) return v;
  v.is_pointer = btf_is_ptr(t) || btf_is_array(t);
  const bool is_enum = btf_is_any_enum(t);
  const __s64 bytes = v.is_pointer ? 8 : ::btf__resolve_size(b, id);
  v.bytes = bytes > 0 ? static_cast<std::uint32_t>(bytes) : 0;
  v.is_signed = (btf_is_int(t) && (btf_int_encoding(t) & BTF_INT_SIGNED) != 0) || (is_enum && btf_kflag(t));
  v.readable = (v.is_pointer || is_enum || btf_is_int(t)) && v.bytes != 0 && v.bytes <= 8;
  return v;
}

/// Arguments from the `skip`th on, each with its word of the context: values by copy take as many as they need.
void read_prototype(const btf* b, const btf_type* prototype, unsigned skip, kernel_function& to) {
  const btf_param* const all = btf_params(prototype);
  std::uint32_t slot = 0;
  for (unsigned i = skip; i < btf_vlen(prototype); ++i) {
    if (all[i].type == 0) break;  // "..."
    typed_value v = value_of(b, all[i].type, ::btf__name_by_offset(b, all[i].name_off));
    if (v.name.empty()) v.name = "arg" + std::to_string(i - skip);
    v.slot = slot;
    slot += v.bytes > 8 ? (v.bytes + 7) / 8 : 1;
    to.arguments.push_back(std::move(v));
  }
  if (skip != 0) return;
  to.result = value_of(b, prototype->type, "result");
  to.result.slot = slot;
  to.has_result = prototype->type != 0 && to.result.readable;
}

bool is_code(char type) { return type == 't' || type == 'T' || type == 'w' || type == 'W'; }

/// Parts of functions and padding are no functions.
bool is_part(const std::string& name) {
  return name.compare(0, 6, "__pfx_") == 0 || name.compare(0, 6, "__cfi_") == 0 ||
         name.find(".cold") != std::string::npos || name.find(".part.") != std::string::npos || name[0] == '.';
}

}  // namespace

kernel_catalog::kernel_catalog(std::string root) : root_(std::move(root)) {
  const std::string folder = root_ + "/sys/kernel/btf/";
  ::libbpf_set_print(nullptr);
  btf* const kernel = ::btf__parse((folder + kernel_itself).c_str(), nullptr);
  if (kernel == nullptr) {
    without_types_ = errno == ENOENT ? "this kernel gives no types of itself (CONFIG_DEBUG_INFO_BTF)"
                                     : folder + kernel_itself + ": " + std::strerror(errno);
    return;
  }
  modules_.push_back({kernel_itself, kernel, 1});
  DIR* const all = ::opendir(folder.c_str());
  std::vector<std::string> names;
  while (const dirent* entry = all != nullptr ? ::readdir(all) : nullptr)
    if (entry->d_name[0] != '.' && std::strcmp(entry->d_name, kernel_itself) != 0) names.emplace_back(entry->d_name);
  if (all != nullptr) ::closedir(all);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names)
    if (btf* const types = ::btf__parse_split((folder + name).c_str(), kernel))
      modules_.push_back({name, types, ::btf__type_cnt(kernel)});
}

kernel_catalog::~kernel_catalog() {
  for (auto m = modules_.rbegin(); m != modules_.rend(); ++m) ::btf__free(m->types);
}

namespace {

/// Names a tracepoint's arguments as its calling function does: the typedef of a tracepoint has types alone.
void take_names(const btf* b, const btf_type* caller, kernel_function& to) {
  const btf_type* const prototype = bare(b, caller->type);
  if (prototype == nullptr || !btf_is_func_proto(prototype) || btf_vlen(prototype) != to.arguments.size() + 1) return;
  for (std::size_t i = 0; i < to.arguments.size(); ++i) {
    const char* const name = ::btf__name_by_offset(b, btf_params(prototype)[i + 1].name_off);
    if (name != nullptr && *name != '\0') to.arguments[i].name = name;
  }
}

}  // namespace

std::vector<kernel_function> kernel_catalog::tracepoints(const wish& wanted) const {
  const std::size_t prefix = std::strlen(tracepoint_prefix);
  std::vector<kernel_function> all;
  for (const module_types& m : modules_) {
    std::map<std::string, const btf_type*> callers;
    for (std::uint32_t id = m.first; id < ::btf__type_cnt(m.types); ++id) {
      const btf_type* const t = ::btf__type_by_id(m.types, id);
      if (btf_is_func(t) && std::strncmp(name_of(m.types, t), caller_prefix, std::strlen(caller_prefix)) == 0)
        callers.emplace(name_of(m.types, t) + std::strlen(caller_prefix), t);
    }
    for (std::uint32_t id = m.first; id < ::btf__type_cnt(m.types); ++id) {
      const btf_type* const t = ::btf__type_by_id(m.types, id);
      if (!btf_is_typedef(t)) continue;
      const char* const name = name_of(m.types, t);
      if (std::strncmp(name, tracepoint_prefix, prefix) != 0 || !wanted(m.module, name + prefix)) continue;
      const btf_type* const pointer = bare(m.types, t->type);
      const btf_type* const prototype =
          pointer != nullptr && btf_is_ptr(pointer) ? bare(m.types, pointer->type) : nullptr;
      if (prototype == nullptr || !btf_is_func_proto(prototype)) continue;
      kernel_function f;
      f.module = m.module;
      f.name = name + prefix;
      f.type_id = id;
      read_prototype(m.types, prototype, 1, f);  // the first one is the callback's private data
      const auto caller = callers.find(f.name);
      if (caller != callers.end()) take_names(m.types, caller->second, f);
      all.push_back(std::move(f));
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

void kernel_catalog::load_symbols() const {
  if (symbols_loaded_) return;
  symbols_loaded_ = true;
  std::ifstream in(root_ + "/proc/kallsyms");
  for (std::string line; std::getline(in, line);) {
    // "address type name" and, of modules, a tab and "[module]"
    const std::size_t type = line.find(' ');
    if (type == std::string::npos || type + 3 >= line.size() || !is_code(line[type + 1])) continue;
    const std::size_t end = std::min(line.find_first_of("\t ", type + 3), line.size());
    std::string name = line.substr(type + 3, end - type - 3);
    if (name.empty() || is_part(name)) continue;
    const std::size_t open = line.find('[', end), close = line.rfind(']');
    const bool of_module = open != std::string::npos && close != std::string::npos && close > open;
    symbols_[of_module ? line.substr(open + 1, close - open - 1) : kernel_itself].push_back(std::move(name));
  }
  symbols_.erase("bpf");  // BPF programs that are loaded now
  for (auto& [module, names] : symbols_) {
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
  }
}

std::vector<kernel_function> kernel_catalog::functions(const wish& wanted) const {
  load_symbols();
  std::vector<kernel_function> all;
  for (const auto& [module, names] : symbols_) {
    std::map<std::string, std::uint32_t> typed;
    const btf* types = nullptr;
    for (const module_types& m : modules_) {
      if (m.module != module) continue;
      types = m.types;
      for (std::uint32_t id = m.first; id < ::btf__type_cnt(m.types); ++id) {
        const btf_type* const t = ::btf__type_by_id(m.types, id);
        if (btf_is_func(t) && wanted(module, name_of(m.types, t))) typed.emplace(name_of(m.types, t), id);
      }
    }
    for (const std::string& name : names) {
      if (!wanted(module, name)) continue;
      kernel_function f;
      f.module = module;
      f.name = name;
      const auto known = typed.find(name);
      const btf_type* const prototype =
          known != typed.end() ? bare(types, ::btf__type_by_id(types, known->second)->type) : nullptr;
      if (prototype != nullptr && btf_is_func_proto(prototype)) {
        f.type_id = known->second;
        read_prototype(types, prototype, 0, f);
      }
      all.push_back(std::move(f));
    }
  }
  return all;
}

std::vector<std::string> kernel_catalog::function_names() const {
  load_symbols();
  std::vector<std::string> all;
  for (const auto& [module, names] : symbols_) all.insert(all.end(), names.begin(), names.end());
  return all;
}

bool has_capability(unsigned number) {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &head, data) != 0) return false;
  return (data[number / 32].effective >> (number % 32) & 1) != 0;
}

}  // namespace cutrace_ebpf
