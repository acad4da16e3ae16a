// SPDX-License-Identifier: Apache-2.0
// BPF links that the kernel has, of whomever: what is left behind shows here.
#pragma once

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <set>

namespace ebpf_tests {

inline std::set<std::uint32_t> kernel_links() {
  std::set<std::uint32_t> all;
  union bpf_attr a;
  std::memset(&a, 0, sizeof(a));
  while (::syscall(SYS_bpf, BPF_LINK_GET_NEXT_ID, &a, sizeof(a)) == 0) {
    all.insert(a.next_id);
    a.start_id = a.next_id;
  }
  return all;
}

/// Those that were not there before are gone within some seconds: the kernel takes its time.
inline bool no_more_than(const std::set<std::uint32_t>& before) {
  for (int patience = 0; patience < 1000; ++patience) {
    bool more = false;
    for (const std::uint32_t id : kernel_links()) more = more || before.count(id) == 0;
    if (!more) return true;
    ::usleep(10000);
  }
  return false;
}

}  // namespace ebpf_tests
