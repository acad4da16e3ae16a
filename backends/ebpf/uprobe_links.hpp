// SPDX-License-Identifier: Apache-2.0
// Probes on functions of one file: one link for all of them where the kernel has such links, by the system call itself,
// since the libbpf of current distributions is older than they are; a link for each function as the last resort.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct bpf_link;
struct bpf_program;

namespace cutrace_ebpf {

/// How entry and return of functions are probed, best first: one link for both of all functions, one for all entries
/// and one for all returns, or two for each function.
enum class link_kind { session, pair, single };
const char* to_string(link_kind k);

/// Of the kernel's uapi (linux/bpf.h), for headers that are older: Linux 6.6 and 6.13.
constexpr unsigned attach_uprobe_multi = 48, attach_uprobe_session = 57;

/// An errno that says: one of these places cannot be probed. Others say that nothing can.
bool is_about_places(int error);

struct probe_place {
  std::uint64_t offset = 0;    ///< in the file
  std::uint32_t function = 0;  ///< the cookie
};

/// Links that are taken off when this object is destroyed.
class uprobe_links {
 public:
  uprobe_links() = default;
  ~uprobe_links();
  uprobe_links(uprobe_links&& from) noexcept { *this = static_cast<uprobe_links&&>(from); }
  uprobe_links& operator=(uprobe_links&& from) noexcept;
  uprobe_links(const uprobe_links&) = delete;
  uprobe_links& operator=(const uprobe_links&) = delete;

  /// One link over all places of the file `fd`, in every process, or in `process` alone where that is not 0.
  /// @returns 0 or errno
  int add_many(int program, unsigned attach_type, bool at_return, int fd, const std::vector<probe_place>& places,
               std::uint32_t process);
  /// A link for each; places that cannot be probed are left out and added to `left_out`. @returns 0 or errno; links
  /// made until then stay
  int add_each(bpf_program* program, bool at_return, int fd, const std::vector<probe_place>& places,
               std::uint32_t process, std::vector<probe_place>& left_out);
  std::size_t count() const noexcept { return many_.size() + each_.size(); }
  void clear();

 private:
  std::vector<int> many_;
  std::vector<bpf_link*> each_;
};

}  // namespace cutrace_ebpf
