// SPDX-License-Identifier: Apache-2.0
// What is the same for each object of BPF programs: how it is opened and closed, what it shares with the object of the
// call probes, and how often its programs were passed over. One thread.
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

/// Opens an object file that lies in memory from `begin` to `end`. Null, with errno set: it cannot be read.
inline owned_object open_object(const char* begin, const char* end) {
  return owned_object(::bpf_object__open_mem(begin, static_cast<std::size_t>(end - begin), nullptr));
}

inline bool is_one_of(const bpf_program* program, const std::vector<const char*>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return std::strcmp(name, ::bpf_program__name(program)) == 0; });
}

/// The value with which a section of fixed data will be loaded; null: there is no such section, or it is smaller than
/// T.
template <class T>
T* fixed_value(bpf_object* object, const char* section) {
  bpf_map* const map = ::bpf_object__find_map_by_name(object, section);
  std::size_t bytes = 0;
  void* const at = map != nullptr ? const_cast<void*>(::bpf_map__initial_value(map, &bytes)) : nullptr;
  return bytes >= sizeof(T) ? static_cast<T*>(at) : nullptr;
}

/// Gives an object the ring, processes, threads and settings of the call probes. Before loading; 0 or errno.
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

/// How often the kernel passed over a program because that program, or another of its kind, was busy. @param program
/// its descriptor; negative for a program that was not loaded, which gives 0
inline std::uint64_t times_passed_over(int program) {
  bpf_prog_info info{};
  __u32 size = sizeof(info);
  return program >= 0 && ::bpf_obj_get_info_by_fd(program, &info, &size) == 0 ? info.recursion_misses : 0;
}

}  // namespace cutrace_ebpf
