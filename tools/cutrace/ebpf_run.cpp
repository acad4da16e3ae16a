// SPDX-License-Identifier: Apache-2.0
#include "cutrace/ebpf_run.hpp"

#include "cutrace/exit_status.hpp"

#if defined(CUTRACE_WITH_EBPF)
#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "cutrace/call_relay.hpp"
#include "cutrace/ebpf_settings.hpp"
#include "cutrace/requested_probes.hpp"

namespace cutrace_tool {

void require_ebpf() {}

bool probes_keep_to_a_process() {
  utsname u{};
  unsigned major = 0, minor = 0;
  return ::uname(&u) == 0 && std::sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 12));
}

namespace {

class ebpf_run final : public outside_run {
 public:
  explicit ebpf_run(const ebpf_plan& plan)
      : plan_(plan), probes_(load_probes(plan.children, plan.method, !plan.joins.empty())) {
    if (plan.kernel) kernel_ = load_kernel_probes(*probes_);
    if (plan.own != nullptr) own_ = plan.own->load(*probes_);
    if (::pipe2(held_, O_CLOEXEC) != 0) throw usage_error("--method " + plan.method + ": no pipe");
  }
  ~ebpf_run() override {
    for (const int fd : held_)
      if (fd >= 0) ::close(fd);
  }

  /// The program waits until the probes know its process and are attached to the driver libraries that it may load.
  start_gate gate() override {
    start_gate g;
    g.in_child = [this] {
      ::close(held_[1]);
      char byte;
      ssize_t n;
      while ((n = ::read(held_[0], &byte, 1)) < 0 && errno == EINTR) {
      }
      return n == 1 ? 0 : ECANCELED;
    };
    g.in_parent = [this](pid_t program) {
      const auto process = static_cast<std::uint32_t>(program);
      try {
        const std::uint32_t only = !plan_.children && probes_keep_to_a_process() ? process : 0;
        relay_ = std::make_unique<call_relay>(*probes_, plan_.writers, only);
        if (kernel_.probes) relay_->set_kernel(*kernel_.probes, kernel_.view);
        if (own_) relay_->set_probes(*own_);
        std::string line;
        for (const std::string& word : plan_.words) line += word + '\0';
        relay_->set_program(process, line.substr(0, 4096));
        if (!plan_.joins.empty()) report_joins(only);
        if (!probes_->trace(process)) return ENOMEM;
        if (own_) own_->attach_libraries(only);
        for (const cutrace_ebpf::opened_file& file :
             cutrace_ebpf::likely_drivers(plan_.executable, plan_.environment)) {
          try {
            if (probes_->is_attached(file)) continue;
            probes_->attach(file, only);
            if (own_) own_->attach_driver(file, only);
          } catch (const cutrace_ebpf::refused&) {
            throw;
          } catch (const std::runtime_error&) {  // not a usable library of this machine: the loader skips it, too
          }
        }
      } catch (const cutrace_ebpf::refused& e) {
        refusal_ = "--method " + plan_.method + ": " + e.what();
        return EPERM;
      }
      return ::write(held_[1], "", 1) == 1 ? 0 : errno;
    };
    return g;
  }
  const std::string& refusal() const override { return refusal_; }
  int wake_fd() const override { return probes_->wake_fd(); }
  void relay() override { relay_->relay(); }
  bool finish() override { return relay_->finish(); }
  std::vector<std::string> notes() const override {
    std::vector<std::string> all = relay_->notes();
    if (own_)
      for (const std::string& note : own_->new_notes()) all.push_back(note);
    if (probes_->links() == cutrace_ebpf::link_kind::single)
      all.push_back("this kernel has no links over many functions (Linux 6.6): taking off the probes took long");
    return all;
  }

 private:
  void report_joins(std::uint32_t only_process) {
    try {
      if (probes_->attach_joins(cutrace_ebpf::opened_file(plan_.joins), "cutrace_call_joins", only_process)) return;
    } catch (const cutrace_ebpf::refused&) {
      throw;
    } catch (const std::runtime_error&) {
    }
    throw cutrace_ebpf::refused(plan_.joins + " is of another version and gives no numbers of calls");
  }

  ebpf_plan plan_;
  std::unique_ptr<cutrace_ebpf::call_probes> probes_;
  loaded_kernel_probes kernel_;
  std::unique_ptr<cutrace_ebpf::user_probes> own_;
  std::unique_ptr<call_relay> relay_;
  std::string refusal_;
  int held_[2] = {-1, -1};
};

}  // namespace

std::unique_ptr<outside_run> make_ebpf_run(const ebpf_plan& plan) { return std::make_unique<ebpf_run>(plan); }

}  // namespace cutrace_tool
#else
namespace cutrace_tool {

void require_ebpf() {
  throw no_probes(
      "--method ebpf: this build of cutrace lacks it; install clang, libbpf-dev and libelf-dev, and build it again");
}

std::unique_ptr<outside_run> make_ebpf_run(const ebpf_plan&) {
  require_ebpf();
  return nullptr;
}

}  // namespace cutrace_tool
#endif
