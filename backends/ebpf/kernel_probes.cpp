// SPDX-License-Identifier: Apache-2.0
#include "kernel_probes.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <cutrace/ioctl/names.hpp>
#include <fstream>
#include <iterator>
#include <string_view>

#include "bpf_parts.hpp"
#include "module_functions.hpp"

// The object file that kernel.bpf.c was compiled to.
__asm__(
    ".pushsection .rodata\n"
    ".balign 16\n"
    "cutrace_ebpf_kernel_begin:\n"
    ".incbin \"" CUTRACE_EBPF_KERNEL_OBJECT
    "\"\n"
    "cutrace_ebpf_kernel_end:\n"
    ".byte 0\n"
    ".popsection\n");
extern "C" {
extern const char cutrace_ebpf_kernel_begin[] __attribute__((visibility("hidden")));
extern const char cutrace_ebpf_kernel_end[] __attribute__((visibility("hidden")));
}

namespace cutrace_ebpf {

namespace io = cutrace::ioctls;

namespace {

struct kind_of_event {
  const char* name;
  std::vector<const char*> programs;
  std::vector<const char*> by_helpers = {};  ///< in their place where the kernel refuses them
};

bool holds(std::string_view list, std::string_view word) {
  while (!list.empty())
    if (next_word(list, ',') == word) return true;
  return false;
}

}  // namespace

kernel_probes::kernel_probes(const call_probes& calls, const io::device_numbers& devices, std::uint32_t branch,
                             const kernel_options& options)
    : calls_(calls), branch_(branch) {
  for (std::string_view rest = options.kinds; !rest.empty();) {
    const std::string_view word = next_word(rest, ',');
    if (std::none_of(std::begin(kernel_kinds), std::end(kernel_kinds), [&](const char* k) { return word == k; }))
      throw refused("\"" + std::string(word) +
                    "\" is no kind of what the kernel does; accepted: ioctl, sched, irq, xid, uvm, module");
  }
  fill_nodes(devices);
  std::strncpy(settings_.interrupt, options.interrupt.c_str(), sizeof(settings_.interrupt) - 1);
  const bool uvm = std::any_of(std::begin(settings_.nodes), std::end(settings_.nodes),
                               [](const cutrace_ebpf_node& n) { return n.mask != 0 && n.is_uvm != 0; });
  const auto wanted = [&](const char* kind) { return options.kinds.empty() || holds(options.kinds, kind); };
  std::vector<std::string> refused_ones;
  const kind_of_event kinds[] = {
      {"ioctl", {"system_call_begins", "system_call_ends"}, {"system_call_begins_by_helper", "system_call_ends"}},
      {"sched", {"thread_switches"}},
      {"irq", {"interrupt_begins", "interrupt_ends"}},
      {"xid", {"gpu_fails"}},
      {"uvm", {"page_faults"}}};
  for (const kind_of_event& k : kinds) {
    const std::string_view name = k.name;
    if (!wanted(k.name) || (name == "uvm" && !uvm)) continue;
    const bool may_fall_back = !k.by_helpers.empty();
    int why = may_fall_back && options.older_kernel ? EINVAL : load(k.programs, nullptr, 0);
    if (why != 0 && may_fall_back) why = load(k.by_helpers, nullptr, 0);
    if (why == 0)
      working_ += (working_.empty() ? "" : ",") + std::string(k.name);
    else if (name == "xid" && why == ENOENT)
      notes_.push_back(
          "errors of the GPU (Xid) are not recorded: the driver of this machine has no tracepoint nvidia_dev_xid, "
          "which "
          "comes with 580");
    else
      refused_ones.push_back(name == "xid" ? "xid: " + std::string(std::strerror(why))
                                           : std::string(k.name) + ": " + std::strerror(why));
  }
  if (!refused_ones.empty())
    notes_.push_back("kernel probes refused: " + fmt::format("{}", fmt::join(refused_ones, ", ")));
  if (wanted("module")) load_functions(options.functions);
}

kernel_probes::~kernel_probes() {
  detach();
  for (const part& p : parts_) ::bpf_object__close(p.object);
}

void kernel_probes::detach() {
  for (part& p : parts_) {
    for (bpf_link* l : p.links) ::bpf_link__destroy(l);
    p.links.clear();
  }
}

/// A driver's major number matches with any minor, a test's stand-in for a device with its own minor alone.
void kernel_probes::fill_nodes(const io::device_numbers& devices) {
  constexpr std::uint32_t every_minor = 0xfff00000;
  std::size_t count = 0;
  const auto add = [&](std::uint32_t device, std::uint32_t mask, bool is_uvm) {
    if (count < CUTRACE_EBPF_NODES) settings_.nodes[count++] = {device, mask, is_uvm ? 1u : 0u};
  };
  for (const io::device_numbers::stand_in& e : devices.stand_ins())
    add(e.major << 20 | e.minor, 0xffffffff,
        e.kind == cutrace::ioctl_device::uvm || e.kind == cutrace::ioctl_device::uvm_tools);
  add(io::device_numbers::fixed_major << 20, every_minor, false);
  if (devices.uvm_major() != 0) add(devices.uvm_major() << 20, every_minor, true);
  if (devices.caps_major() != 0) add(devices.caps_major() << 20, every_minor, false);
}

/// Sizes of blocks that request words do not say, and offsets of statuses that lie beyond what is copied.
void kernel_probes::fill_blocks(bpf_object* object, std::uint32_t branch) const {
  const int map = ::bpf_object__find_map_fd_by_name(object, "blocks");
  const auto put = [&](std::uint64_t key, std::uint32_t bytes, std::uint32_t status, std::uint32_t least) {
    cutrace_ebpf_block b{};
    b.bytes = static_cast<std::uint16_t>(bytes);
    if (status != io::none && status + 4u > CUTRACE_EBPF_BLOCK) b.status = static_cast<std::uint16_t>(status);
    b.least = static_cast<std::uint16_t>(least);
    if (key >> 32 != 0 || b.status != 0) static_cast<void>(::bpf_map_update_elem(map, &key, &b, BPF_ANY));
  };
  for (const io::uvm_command& c : io::tables::uvm_commands)
    if (const io::uvm_command* best = io::find_uvm(c.number, branch))
      put(std::uint64_t{1} << 32 | c.number, best->bytes, best->status, 0);
  for (const io::escape& e : io::tables::escapes)
    if (const io::escape* best = io::find_escape(e.number, 0, branch)) put(e.number, 0, best->status, best->bytes);
}

/// Programs of one kind, loaded and put where they belong. 0 or errno; then nothing of it is left.
int kernel_probes::load(const std::vector<const char*>& programs, const char* target, std::uint32_t function) {
  struct closing {
    part p{};
    ~closing() {
      for (bpf_link* l : p.links) ::bpf_link__destroy(l);
      if (p.object != nullptr) ::bpf_object__close(p.object);
    }
  };
  closing c;
  part& p = c.p;
  p.object = open_object(cutrace_ebpf_kernel_begin, cutrace_ebpf_kernel_end).release();
  if (p.object == nullptr) return errno;
  bpf_program* one = nullptr;
  bpf_object__for_each_program(one, p.object) {
    const bool chosen = is_one_of(one, programs);
    ::bpf_program__set_autoload(one, chosen);
    if (!chosen || target == nullptr) continue;
    if (const int why = ::bpf_program__set_attach_target(one, 0, target)) return -why;
  }
  if (const int why = share(p.object, calls_)) return why;
  auto* const own = fixed_value<cutrace_ebpf_kernel>(p.object, ".rodata.kernel");
  if (own == nullptr) return ENOENT;
  *own = settings_;
  own->function = function;
  if (const int why = ::bpf_object__load(p.object)) return -why;
  fill_blocks(p.object, branch_);
  p.totals = ::bpf_object__find_map_fd_by_name(p.object, "totals");
  // What ends comes before what begins: a begin without its end would seem to last.
  for (auto name = programs.rbegin(); name != programs.rend(); ++name) {
    bpf_program* const program = ::bpf_object__find_program_by_name(p.object, *name);
    bpf_link* const made = ::bpf_program__attach(program);
    if (made == nullptr) return errno;
    p.links.push_back(made);
    p.programs.push_back(::bpf_program__fd(program));
  }
  parts_.push_back(p);
  p = {};
  return 0;
}

void kernel_probes::load_functions(const std::string& wanted) {
  std::vector<std::string> names;
  if (wanted.empty()) {
    std::ifstream in("/proc/kallsyms", std::ios::binary);
    std::string line, of_modules;
    while (std::getline(in, line))
      if (line.find("\t[nvidia") != std::string::npos) of_modules += line + "\n";
    names = module_functions(of_modules);
  } else {
    for (std::string_view rest = wanted; !rest.empty();) names.emplace_back(next_word(rest, ','));
  }
  if (names.empty()) {
    notes_.push_back("no function of NVIDIA's modules is in /proc/kallsyms; ioctls come from tracepoints");
    return;
  }
  std::vector<std::string> refused_ones;
  int last = 0;
  for (const std::string& name : names) {
    const auto number = static_cast<std::uint32_t>(functions_.size());
    const int why =
        number < CUTRACE_EBPF_MODULE_FUNCTIONS ? load({"module_enters", "module_leaves"}, name.c_str(), number) : E2BIG;
    if (why == 0) {
      functions_.push_back(name);
    } else {
      refused_ones.push_back(name);
      last = why;
    }
  }
  if (!functions_.empty()) working_ += (working_.empty() ? "" : ",") + std::string("module");
  if (!refused_ones.empty())
    notes_.push_back("kernel probes refused: " + fmt::format("{}", fmt::join(refused_ones, ", ")) + " (" +
                     std::strerror(last) + "); ioctls come from tracepoints");
}

cutrace_ebpf_totals kernel_probes::totals() const {
  cutrace_ebpf_totals all{};
  const std::uint32_t first = 0;
  for (const part& p : parts_) {
    cutrace_ebpf_totals one{};
    if (::bpf_map_lookup_elem(p.totals, &first, &one) != 0) continue;
    for (unsigned i = 0; i < CUTRACE_EBPF_LOSSES; ++i) all.lost[i] += one.lost[i];
    all.faults_unreported += one.faults_unreported;
  }
  return all;
}

std::uint64_t kernel_probes::passed_over() const {
  std::uint64_t times = 0;
  for (const part& p : parts_)
    for (const int program : p.programs) times += times_passed_over(program);
  return times;
}

}  // namespace cutrace_ebpf
