// SPDX-License-Identifier: Apache-2.0
#include "user_probes.hpp"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "bpf_parts.hpp"
#include "probe_permission.hpp"

// The object file that user.bpf.c was compiled to.
__asm__(
    ".pushsection .rodata\n"
    ".balign 16\n"
    "cutrace_ebpf_user_begin:\n"
    ".incbin \"" CUTRACE_EBPF_USER_OBJECT
    "\"\n"
    "cutrace_ebpf_user_end:\n"
    ".byte 0\n"
    ".popsection\n");
extern "C" {
extern const char cutrace_ebpf_user_begin[] __attribute__((visibility("hidden")));
extern const char cutrace_ebpf_user_end[] __attribute__((visibility("hidden")));
}

namespace cutrace_ebpf {

namespace {

constexpr const char* register_names[] = {"arg0", "arg1", "arg2", "arg3", "arg4", "arg5"};

/// Target of the next fentry or fexit program. Set here by id, since libbpf looks for a name in the kernel first and
/// then in one module after the other, and takes the first that has it.
struct {
  std::uint32_t type_id = 0;
  int types = 0;
} target;

int set_target(bpf_program*, bpf_prog_load_opts* options, long) {
  options->attach_btf_id = target.type_id;
  options->attach_btf_obj_fd = static_cast<__u32>(target.types);
  return 0;
}

void register_sections() {
  static const bool once = [] {
    libbpf_prog_handler_opts o{};
    o.sz = sizeof(o);
    o.prog_prepare_load_fn = &set_target;
    ::libbpf_register_prog_handler("cutrace_fentry", BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY, &o);
    ::libbpf_register_prog_handler("cutrace_fexit", BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, &o);
    return true;
  }();
  static_cast<void>(once);
}

std::vector<const char*> programs_of(probe_kind kind) {
  switch (kind) {
    case probe_kind::uprobe:
      return {"probe_entry", "probe_return"};
    case probe_kind::tracepoint:
      return {"probe_tracepoint"};
    case probe_kind::fentry:
      return {"probe_enters", "probe_leaves"};
    case probe_kind::kprobe:
      return {"probe_kernel_entry", "probe_kernel_return"};
  }
  return {};
}

}  // namespace

std::shared_ptr<const int> open_module_types(const std::string& module) {
  for (__u32 id = 0; ::bpf_btf_get_next_id(id, &id) == 0;) {
    const int fd = ::bpf_btf_get_fd_by_id(id);
    if (fd < 0) continue;
    const std::shared_ptr<const int> held(new int(fd), [](const int* p) {
      ::close(*p);
      delete p;
    });
    char name[64] = "";
    bpf_btf_info info{};
    info.name = reinterpret_cast<std::uintptr_t>(name);
    info.name_len = sizeof(name);
    __u32 size = sizeof(info);
    if (::bpf_obj_get_info_by_fd(fd, &info, &size) == 0 && info.kernel_btf != 0 && module == name) return held;
  }
  return nullptr;
}

user_probes::user_probes(const call_probes& calls, const kernel_catalog& kernel, std::vector<chosen_probe> wanted)
    : calls_(calls), kernel_(kernel), wanted_(std::move(wanted)), placed_(wanted_.size(), false) {
  register_sections();
  bool any = false;
  for (std::uint32_t number = 1; number <= wanted_.size(); ++number) {
    const chosen_probe& c = wanted_[number - 1];
    any = any || c.spec.kind == probe_kind::uprobe;
    if (c.spec.kind == probe_kind::uprobe) continue;
    placed_[number - 1] = true;
    if (const int why = load_in_kernel(number)) refuse(number, why);
  }
  if (any) load_uprobes();
}

user_probes::~user_probes() {
  detach();
  for (bpf_object* o : objects_) ::bpf_object__close(o);
}

void user_probes::detach() {
  places_.clear();
  for (bpf_link* l : links_) ::bpf_link__destroy(l);
  links_.clear();
}

void user_probes::refuse(std::uint32_t number, int error, const std::string& more) {
  const chosen_probe& c = wanted_[number - 1];
  std::string why = more.empty() ? std::strerror(error) : more;
  if (more.empty()) {
    const permission may = try_probe_kind(c.spec.kind, kernel_);
    if (!may.given) why = may.reason;
  }
  notes_.push_back("no probe " + c.spec.text() + ": " + why);
}

/// Loads a copy of the object with `programs` alone and the maps of the call probes. 0 or errno; `object` is null then.
int user_probes::open(bpf_object*& object, const std::vector<const char*>& programs,
                      const cutrace_ebpf_user_probe& own) const {
  object = nullptr;
  owned_object o = open_object(cutrace_ebpf_user_begin, cutrace_ebpf_user_end);
  if (o == nullptr) return errno;
  bpf_program* one = nullptr;
  bpf_object__for_each_program(one, o.get()) {
    const bool chosen = is_one_of(one, programs);
    ::bpf_program__set_autoload(one, chosen);
    if (chosen && programs == programs_of(probe_kind::uprobe) && calls_.links() != link_kind::single)
      ::bpf_program__set_expected_attach_type(one, static_cast<bpf_attach_type>(attach_uprobe_multi));
  }
  if (const int why = share(o.get(), calls_)) return why;
  auto* const fixed = fixed_value<cutrace_ebpf_user_probe>(o.get(), ".rodata.own");
  if (fixed == nullptr) return ENOENT;
  *fixed = own;
  if (const int why = ::bpf_object__load(o.get())) return -why;
  object = o.release();
  return 0;
}

void user_probes::load_uprobes() {
  const int why = open(uprobes_, programs_of(probe_kind::uprobe), {});
  if (why == 0) {
    objects_.push_back(uprobes_);
    return;
  }
  for (std::uint32_t number = 1; number <= wanted_.size(); ++number) {
    if (wanted_[number - 1].spec.kind != probe_kind::uprobe) continue;
    placed_[number - 1] = true;
    refuse(number, why);
  }
}

int user_probes::load_in_kernel(std::uint32_t number) {
  const chosen_probe& c = wanted_[number - 1];
  const std::vector<const char*> programs = programs_of(c.spec.kind);
  const bool of_module = c.function.module != "vmlinux";
  if (c.spec.kind == probe_kind::fentry && of_module && c.types == nullptr) return EPERM;
  target = {c.function.type_id, of_module && c.types != nullptr ? *c.types : 0};
  cutrace_ebpf_user_probe own{};
  own.number = number;
  own.words =
      static_cast<__u32>(std::min<std::size_t>(c.function.arguments.size(), std::size_t{CUTRACE_EBPF_PROBE_WORDS}));
  bpf_object* object = nullptr;
  if (const int why = open(object, programs, own)) return why;
  objects_.push_back(object);
  // Returns are attached before entries: an entry whose return is not seen would seem to last.
  std::vector<bpf_link*> made;
  for (auto name = programs.rbegin(); name != programs.rend(); ++name) {
    bpf_program* const program = ::bpf_object__find_program_by_name(object, *name);
    bpf_link* link = nullptr;
    if (c.spec.kind == probe_kind::tracepoint) {
      link = ::bpf_program__attach_raw_tracepoint(program, c.spec.name.c_str());
    } else if (c.spec.kind == probe_kind::fentry) {
      link = ::bpf_program__attach_trace(program);
    } else {
      bpf_kprobe_opts o{};
      o.sz = sizeof(o);
      o.retprobe = *name == programs.back();
      link = ::bpf_program__attach_kprobe_opts(
          program, ((of_module ? c.function.module + ":" : std::string()) + c.spec.name).c_str(), &o);
    }
    if (link == nullptr) {
      const int why = errno;
      for (bpf_link* l : made) ::bpf_link__destroy(l);
      return why;
    }
    made.push_back(link);
  }
  links_.insert(links_.end(), made.begin(), made.end());
  return 0;
}

void user_probes::attach(std::uint32_t number, const opened_file& file, std::uint32_t only_process) {
  const chosen_probe& c = wanted_[number - 1];
  std::set<std::uint64_t> offsets;  // functions of several source files may have one name, if they are not exported
  elf_file(file, true).all_functions([&](const char* name, std::uint64_t at) {
    if (c.spec.name == name) offsets.insert(at);
  });
  if (offsets.empty()) return;
  placed_[number - 1] = true;
  std::vector<probe_place> places;
  for (const std::uint64_t at : offsets)
    if (!begins_with_prefix(file, at)) places.push_back({at, number});
  if (const std::size_t bad = offsets.size() - places.size())
    refuse(number, 0,
           offsets.size() == 1 ? "the kernel cannot probe its first instruction"
                               : std::to_string(bad) + " of " + std::to_string(offsets.size()) +
                                     ", since the kernel cannot probe them");
  if (places.empty()) return;
  const bpf_program* const entry = ::bpf_object__find_program_by_name(uprobes_, "probe_entry");
  const bpf_program* const leave = ::bpf_object__find_program_by_name(uprobes_, "probe_return");
  int why = 0;
  if (calls_.links() != link_kind::single) {
    why = places_.add_many(::bpf_program__fd(leave), attach_uprobe_multi, true, file.fd(), places, only_process);
    if (why == 0)
      why = places_.add_many(::bpf_program__fd(entry), attach_uprobe_multi, false, file.fd(), places, only_process);
  } else {
    std::vector<probe_place> bad;
    for (const bool at_return : {true, false}) {
      bpf_program* const program =
          ::bpf_object__find_program_by_name(uprobes_, at_return ? "probe_return" : "probe_entry");
      if (why == 0) why = places_.add_each(program, at_return, file.fd(), places, only_process, bad);
    }
    if (why == 0 && !bad.empty()) why = EINVAL;
  }
  if (why != 0) refuse(number, why, is_about_places(why) ? "the kernel cannot probe its first instruction" : "");
}

void user_probes::attach_libraries(std::uint32_t only_process) {
  for (std::uint32_t number = 1; uprobes_ != nullptr && number <= wanted_.size(); ++number)
    if (wanted_[number - 1].spec.kind == probe_kind::uprobe && wanted_[number - 1].library != nullptr)
      attach(number, *wanted_[number - 1].library, only_process);
}

void user_probes::attach_driver(const opened_file& file, std::uint32_t only_process) {
  for (std::uint32_t number = 1; uprobes_ != nullptr && number <= wanted_.size(); ++number)
    if (wanted_[number - 1].spec.kind == probe_kind::uprobe && wanted_[number - 1].library == nullptr)
      attach(number, file, only_process);
}

std::vector<std::string> user_probes::new_notes() {
  const auto reported = static_cast<std::ptrdiff_t>(reported_);
  reported_ = notes_.size();
  return std::vector<std::string>(notes_.begin() + reported, notes_.end());
}

void user_probes::end() {
  detach();
  std::uint64_t passed_over = 0;
  for (bpf_object* o : objects_) {
    bpf_program* one = nullptr;
    bpf_object__for_each_program(one, o) passed_over += times_passed_over(::bpf_program__fd(one));
  }
  if (passed_over != 0)
    notes_.push_back("the kernel passed over probes " + std::to_string(passed_over) +
                     " times while they were busy: records of theirs may be missing");
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    if (placed_[i]) continue;
    placed_[i] = true;
    notes_.push_back("no probe " + wanted_[i].spec.text() + ": no libcuda with such a function was found or loaded");
  }
}

probe_view user_probes::view() const {
  probe_view all;
  for (const chosen_probe& c : wanted_) {
    known_probe t;
    t.name = c.spec.name;
    if (c.spec.kind == probe_kind::uprobe || c.spec.kind == probe_kind::kprobe) {
      for (std::uint32_t i = 0; i < std::size(register_names); ++i) {
        typed_value v;
        v.name = register_names[i];
        v.bytes = 8;
        v.slot = i;
        v.is_pointer = v.readable = true;  // it may be one: recorded in hexadecimal digits
        t.arguments.push_back(std::move(v));
      }
      t.has_result = true;
      t.result.bytes = 8;
    } else {
      t.arguments = c.function.arguments;
      t.has_result = c.function.has_result;
      t.result = c.function.result;
    }
    all.push_back(std::move(t));
  }
  return all;
}

}  // namespace cutrace_ebpf
