// SPDX-License-Identifier: Apache-2.0
#include "uprobe_links.hpp"

#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace cutrace_ebpf {

namespace {

/// `link_create` of union bpf_attr as far as links of uprobes use it (linux/bpf.h).
struct uprobe_multi_attributes {
  std::uint32_t program = 0;
  std::uint32_t target = 0;
  std::uint32_t attach_type = 0;
  std::uint32_t link_flags = 0;
  std::uint64_t path = 0;
  std::uint64_t offsets = 0;
  std::uint64_t reference_counters = 0;
  std::uint64_t cookies = 0;
  std::uint32_t count = 0;
  std::uint32_t flags = 0;
  std::uint32_t process = 0;
  std::uint32_t unused = 0;
};
constexpr std::uint32_t flag_return = 1;

/// The kernel's ENOTSUPP, which user-space headers lack: the instruction cannot be executed out of line, which uprobes
/// need.
constexpr int cannot_be_probed = 524;

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace

bool is_about_places(int error) { return error == cannot_be_probed || error == ENOTSUP || error == EINVAL; }

const char* to_string(link_kind k) {
  return k == link_kind::session ? "session" : k == link_kind::pair ? "pair" : "single";
}

uprobe_links::~uprobe_links() { clear(); }

uprobe_links& uprobe_links::operator=(uprobe_links&& from) noexcept {
  std::swap(many_, from.many_);
  std::swap(each_, from.each_);
  return *this;
}

void uprobe_links::clear() {
  for (const int fd : many_) ::close(fd);
  many_.clear();
  for (bpf_link* l : each_) ::bpf_link__destroy(l);
  each_.clear();
}

int uprobe_links::add_many(int program, unsigned attach_type, bool at_return, int fd,
                           const std::vector<probe_place>& places, std::uint32_t process) {
  if (places.empty()) return 0;
  const std::string path = path_of(fd);
  std::vector<std::uint64_t> offsets, cookies;
  for (const probe_place& p : places) {
    offsets.push_back(p.offset);
    cookies.push_back(p.function);
  }
  uprobe_multi_attributes a;
  a.program = static_cast<std::uint32_t>(program);
  a.attach_type = attach_type;
  a.path = reinterpret_cast<std::uintptr_t>(path.c_str());
  a.offsets = reinterpret_cast<std::uintptr_t>(offsets.data());
  a.cookies = reinterpret_cast<std::uintptr_t>(cookies.data());
  a.count = static_cast<std::uint32_t>(places.size());
  a.flags = at_return ? flag_return : 0;
  a.process = process;
  const long made = ::syscall(SYS_bpf, BPF_LINK_CREATE, &a, sizeof(a));
  if (made < 0) return errno;
  many_.push_back(static_cast<int>(made));
  return 0;
}

int uprobe_links::add_each(bpf_program* program, bool at_return, int fd, const std::vector<probe_place>& places,
                           std::uint32_t process, std::vector<probe_place>& left_out) {
  const std::string path = path_of(fd);
  for (const probe_place& p : places) {
    bpf_uprobe_opts o{};
    o.sz = sizeof(o);
    o.bpf_cookie = p.function;
    o.retprobe = at_return;
    bpf_link* const made = ::bpf_program__attach_uprobe_opts(program, process != 0 ? static_cast<pid_t>(process) : -1,
                                                             path.c_str(), p.offset, &o);
    const int error = errno;
    if (made != nullptr)
      each_.push_back(made);
    else if (is_about_places(error))
      left_out.push_back(p);
    else
      return error;
  }
  return 0;
}

}  // namespace cutrace_ebpf
