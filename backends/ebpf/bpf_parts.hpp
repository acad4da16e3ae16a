// SPDX-License-Identifier: Apache-2.0
// What is the same for each object of BPF programs: how it is opened and closed, what it shares with that of the calls,
// and what is asked of it. One thread.
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "call_probes.hpp"

namespace cutrace_ebpf {

struct object_closing {
  void operator()(bpf_object* o) const noexcept { ::bpf_object__close(o); }
};
using owned_object = std::unique_ptr<bpf_object, object_closing>;

/// Of an object file that is in memory. Null, with errno: it cannot be read.
inline owned_object open_object(const char* begin, const char* end) {
  return owned_object(::bpf_object__open_mem(begin, static_cast<std::size_t>(end - begin), nullptr));
}

inline bool is_one_of(const bpf_program* program, const std::vector<const char*>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return std::strcmp(name, ::bpf_program__name(program)) == 0; });
}

/// The value that a section of fixed data is loaded with; null: it has none of that size.
template <class T>
T* fixed_value(bpf_object* object, const char* section) {
  bpf_map* const map = ::bpf_object__find_map_by_name(object, section);
  std::size_t bytes = 0;
  void* const at = map != nullptr ? const_cast<void*>(::bpf_map__initial_value(map, &bytes)) : nullptr;
  return bytes >= sizeof(T) ? static_cast<T*>(at) : nullptr;
}

/// Ring, processes, threads and settings are those of the calls. Before loading; 0 or errno.
inline int share(bpf_object* object, const call_probes& calls) {
  for (const char* name : {"ring", "targets", "threads"}) {
    bpf_map* const map = ::bpf_object__find_map_by_name(object, name);
    if (map == nullptr) return ENOENT;
    if (const int why = ::bpf_map__reuse_fd(map, calls.map(name))) return -why;
  }
  auto* const settings = fixed_value<cutrace_ebpf_settings>(object, ".rodata.settings");
  if (settings == nullptr) return ENOENT;
  *settings = calls.settings();
  return 0;
}

/// How often the kernel passed over a program since it, or another one of its kind, was busy. @param program its
/// descriptor; a negative one, of a program that was not loaded: never
inline std::uint64_t times_passed_over(int program) {
  bpf_prog_info info{};
  __u32 size = sizeof(info);
  return program >= 0 && ::bpf_obj_get_info_by_fd(program, &info, &size) == 0 ? info.recursion_misses : 0;
}

}  // namespace cutrace_ebpf
