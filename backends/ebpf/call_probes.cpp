// SPDX-License-Identifier: Apache-2.0
#include "call_probes.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "bpf_parts.hpp"
#include "call_words.hpp"

// The object file that calls.bpf.c was compiled to, so that nobody needs the compiler or the file where it is used.
__asm__(
    ".pushsection .rodata\n"
    ".balign 16\n"
    "cutrace_ebpf_object_begin:\n"
    ".incbin \"" CUTRACE_EBPF_OBJECT
    "\"\n"
    "cutrace_ebpf_object_end:\n"
    ".byte 0\n"
    ".popsection\n");
extern "C" {
extern const char cutrace_ebpf_object_begin[] __attribute__((visibility("hidden")));
extern const char cutrace_ebpf_object_end[] __attribute__((visibility("hidden")));
}

namespace cutrace_ebpf {

namespace {

constexpr ino_t first_pid_namespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO of the kernel

/// What libbpf had to say last: it is part of a refusal.
std::string& complaint() {
  static std::string text;
  return text;
}
int keep_complaint(libbpf_print_level level, const char* format, va_list values) {
  char line[1024];
  const int n = std::vsnprintf(line, sizeof(line), format, values);
  // The first warning names what failed; the verifier's log comes as one, too, and is too long to be of use.
  if (level == LIBBPF_WARN && n > 0 && complaint().empty() && std::strstr(line, "BEGIN PROG LOAD LOG") == nullptr)
    complaint() = std::string(line, std::strcspn(line, "\n"));
  return 0;
}

refused refusal(const std::string& what, int error) {
  std::string text = what + ": " + std::strerror(error);
  if (error == EPERM || error == EACCES)
    text +=
        "; it needs root (sudo cutrace ...; the program itself runs as you all the same) or CAP_BPF and CAP_PERFMON, "
        "and a kernel that is not locked against it: cutrace doctor --method ebpf says what is in the way";
  else if (!complaint().empty())
    text += " (" + complaint() + ")";
  return refused(text);
}

struct program_choice {
  const char* name;
  bool session, pair, single;
  bool probe_options::*option = nullptr;  ///< loaded where it is wanted
};
constexpr program_choice programs[] = {{"call_session", true, false, false},
                                       {"call_entry", false, true, true},
                                       {"call_return", false, true, true},
                                       {"call_joins", false, false, false, &probe_options::joined},
                                       {"empty_entry", false, false, false, &probe_options::measured},
                                       {"empty_return", false, false, false, &probe_options::measured}};

bool is_chosen(const program_choice& p, link_kind kind) {
  return kind == link_kind::session ? p.session : kind == link_kind::pair ? p.pair : p.single;
}

}  // namespace

call_probes::call_probes(const probe_options& options) {
  ::libbpf_set_print(&keep_complaint);
  std::string why;
  for (const link_kind kind : {link_kind::session, link_kind::pair, link_kind::single}) {
    if (!options.links.empty() && options.links != to_string(kind)) continue;
    try {
      complaint().clear();
      load(kind, options);
      kind_ = kind;
      return;
    } catch (const refused& e) {
      why = e.what();
    }
  }
  throw refused(why.empty() ? "\"" + options.links + "\" is no kind of links; accepted: session, pair, single" : why);
}

call_probes::~call_probes() {
  detach();
  for (bpf_link* l : tracepoints_) ::bpf_link__destroy(l);
  if (ring_ != nullptr) ::ring_buffer__free(ring_);
  if (object_ != nullptr) ::bpf_object__close(object_);
}

void call_probes::load(link_kind kind, const probe_options& options) {
  owned_object o = open_object(cutrace_ebpf_object_begin, cutrace_ebpf_object_end);
  if (o == nullptr) throw refusal("the BPF object cannot be read", errno);
  for (const program_choice& p : programs) {
    bpf_program* const program = ::bpf_object__find_program_by_name(o.get(), p.name);
    if (program == nullptr) throw refusal("the BPF object is damaged", ENOENT);
    ::bpf_program__set_autoload(program, p.option != nullptr ? options.*p.option : is_chosen(p, kind));
    if (kind != link_kind::single || p.option == &probe_options::measured)
      ::bpf_program__set_expected_attach_type(
          program, static_cast<bpf_attach_type>(p.session ? attach_uprobe_session : attach_uprobe_multi));
  }
  bpf_map* const ring = ::bpf_object__find_map_by_name(o.get(), "ring");
  auto* const settings = fixed_value<cutrace_ebpf_settings>(o.get(), ".rodata.settings");
  if (ring == nullptr || settings == nullptr) throw refusal("the BPF object is damaged", ENOENT);
  ::bpf_map__set_max_entries(ring, static_cast<std::uint32_t>(options.ring_bytes));
  settings->wake_bytes = options.ring_bytes / 4;
  // A thread writes so much before it asks: even for many threads together that is a small part of wake_bytes.
  settings->ask_bytes = static_cast<std::uint32_t>(settings->wake_bytes / 256);
  settings->follow_children = options.children ? 1 : 0;
  struct stat own {};
  if (::stat("/proc/self/ns/pid", &own) == 0 && own.st_ino != first_pid_namespace)
    settings->own_namespace = static_cast<std::uint32_t>(own.st_ino);
  settings_ = *settings;
  if (const int error = ::bpf_object__load(o.get())) throw refusal("the kernel does not take the BPF programs", -error);

  object_ = o.get();  // for try_link
  kind_ = kind;
  if (const int error = try_link()) {
    object_ = nullptr;
    throw refusal("the kernel makes no link of the kind '" + std::string(to_string(kind)) + "'", error);
  }
  std::vector<bpf_link*> tracepoints;
  for (const char* name : {"process_forks", "thread_exits", "process_executes"}) {
    bpf_link* const made = ::bpf_program__attach(program(name));
    const int error = errno;
    if (made != nullptr) {
      tracepoints.push_back(made);
      continue;
    }
    for (bpf_link* l : tracepoints) ::bpf_link__destroy(l);
    object_ = nullptr;
    throw refusal("the kernel makes no link to a tracepoint", error);
  }
  static_cast<void>(o.release());
  tracepoints_ = std::move(tracepoints);
  targets_ = ::bpf_object__find_map_fd_by_name(object_, "targets");
  plans_ = ::bpf_object__find_map_fd_by_name(object_, "plans");
  const auto take = [](void* self, void* data, std::size_t size) -> int {
    call_probes& p = *static_cast<call_probes*>(self);
    if ((*p.take_)(data, size)) return 0;
    p.kept_.assign(static_cast<const char*>(data), static_cast<const char*>(data) + size);
    return -EAGAIN;  // libbpf counts this record as taken, so it is kept here
  };
  ring_ = ::ring_buffer__new(::bpf_map__fd(ring), take, this, nullptr);
  if (ring_ == nullptr) throw refusal("the ring buffer cannot be mapped", errno);
}

bpf_program* call_probes::program(const char* name) const { return ::bpf_object__find_program_by_name(object_, name); }

/// Makes one link for all entries; a session link sees the returns, too. Not for link_kind::single. 0 or errno.
int call_probes::add_entries(uprobe_links& to, int file, const std::vector<probe_place>& places,
                             std::uint32_t process) const {
  const bool session = kind_ == link_kind::session;
  return to.add_many(::bpf_program__fd(program(session ? "call_session" : "call_entry")),
                     session ? attach_uprobe_session : attach_uprobe_multi, false, file, places, process);
}

int call_probes::map(const char* name) const { return ::bpf_object__find_map_fd_by_name(object_, name); }

/// On a file that nobody executes: whether such links are made at all. 0 or errno.
int call_probes::try_link() {
  if (kind_ == link_kind::single) return 0;
  const int file = ::memfd_create("cutrace", MFD_CLOEXEC);
  if (file < 0) return errno;
  uprobe_links trial;
  const int error = add_entries(trial, file, {{0, 0}}, 0);
  trial.clear();
  ::close(file);
  return error;
}

bool call_probes::trace(std::uint32_t process) {
  const cutrace_ebpf_target begin{};
  return ::bpf_map_update_elem(targets_, &process, &begin, BPF_ANY) == 0;
}

bool call_probes::look_at(std::uint32_t process, cutrace_ebpf_target& to) const {
  if (::bpf_map_lookup_elem(targets_, &process, &to) != 0) return false;
  if (kind_ != link_kind::single) return true;
  // The kernel skips a single link's program while another program of its kind, which was interrupted, is unfinished on
  // the same processor, and counts the skips for the program. A call whose entry was skipped has no record, whether its
  // return was seen or not. Skips are counted with the first process, since nobody knows whose calls they were.
  to.lost[CUTRACE_EBPF_NO_ENTRY] = 0;
  if (to.parent == 0) to.lost[CUTRACE_EBPF_TOO_DEEP] += times_passed_over(::bpf_program__fd(program("call_entry")));
  return true;
}

void call_probes::forget(std::uint32_t process) { ::bpf_map_delete_elem(targets_, &process); }

std::vector<std::uint32_t> call_probes::traced() const {
  std::vector<std::uint32_t> all;
  std::uint32_t key = 0, next = 0;
  for (const std::uint32_t* at = nullptr; ::bpf_map_get_next_key(targets_, at, &next) == 0; at = &key) {
    key = next;
    all.push_back(next);
    if (all.size() > 65536) break;  // it changes while it is read
  }
  return all;
}

std::uint32_t call_probes::number_of(const std::string& name, bool exported) {
  const auto known = numbers_.find((exported ? "" : "*") + name);
  if (known != numbers_.end()) return known->second;
  const auto number = static_cast<std::uint32_t>(functions_.size() + 1);
  if (number >= CUTRACE_EBPF_FUNCTIONS) return 0;
  const call_words words(name.c_str(), exported);
  if (::bpf_map_update_elem(plans_, &number, &words.plan(), BPF_ANY) != 0)
    throw refusal("the kernel takes no further function", errno);
  functions_.push_back({name, exported});
  numbers_[(exported ? "" : "*") + name] = number;
  return number;
}

const call_probes::known_function* call_probes::function(std::uint32_t number) const {
  return number == 0 || number > functions_.size() ? nullptr : &functions_[number - 1];
}

std::size_t call_probes::attach(const opened_file& file, std::uint32_t only_process) {
  if (is_attached(file)) return 0;
  std::vector<probe_place> places;
  std::set<std::uint64_t>& offsets = files_[file.identity()];  // remembered even if this fails: one try is enough
  for (const driver_function& f : elf_file(file).driver_functions()) {
    const std::uint32_t number = number_of(f.name, true);
    if (number == 0) break;
    places.push_back({f.offset, number});
    offsets.insert(f.offset);
    for (const std::string& other : f.other_names) same_places_.push_back(other + " is " + f.name);
  }
  link(file, places, only_process);
  return places.size();
}

bool call_probes::attach_one(const opened_file& file, std::uint64_t offset, const std::string& name,
                             std::uint32_t only_process) {
  std::set<std::uint64_t>& offsets = files_[file.identity()];
  if (!offsets.insert(offset).second) return false;
  const std::uint32_t number = number_of(name, false);
  if (number == 0) return false;
  return link(file, {{offset, number}}, only_process);
}

namespace {

/// Maps a library into this process, which never executes it: the kernel checks the instructions of places only in
/// processes that map them, and only then reports which it cannot probe.
class mapped_here {
 public:
  explicit mapped_here(const opened_file& file) {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    for (const elf_file::part& p : elf_file(file).executable_parts()) {
      const std::uint64_t begin = p.offset & ~(page - 1), bytes = p.offset + p.bytes - begin;
      void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.fd(), static_cast<off_t>(begin));
      if (at != MAP_FAILED) all_.push_back({at, bytes});
    }
  }
  ~mapped_here() {
    for (const auto& [at, bytes] : all_) ::munmap(at, bytes);
  }
  mapped_here(const mapped_here&) = delete;
  mapped_here& operator=(const mapped_here&) = delete;

 private:
  std::vector<std::pair<void*, std::size_t>> all_;
};

}  // namespace

/// Probes in this process alone, for a moment. 0 or errno.
int call_probes::try_places(const opened_file& file, const std::vector<probe_place>& places) {
  uprobe_links trial;
  return add_entries(trial, file.fd(), places, static_cast<std::uint32_t>(::getpid()));
}

/// Leaves out what cannot be probed, by halving: each try takes as long as all links together.
void call_probes::sort_out(const opened_file& file, std::vector<probe_place>& places) {
  if (places.empty()) return;
  const int error = try_places(file, places);
  if (error == 0) return;
  if (!is_about_places(error)) throw refusal("no probes on " + file.path(), error);
  if (places.size() == 1) {
    left_out_.push_back(functions_[places[0].function - 1].name);
    places.clear();
    return;
  }
  const auto half = places.begin() + static_cast<std::ptrdiff_t>(places.size() / 2);
  std::vector<probe_place> first(places.begin(), half), second(half, places.end());
  sort_out(file, first);
  sort_out(file, second);
  places = std::move(first);
  places.insert(places.end(), second.begin(), second.end());
}

/// Puts probes on `places`, as far as they can be probed. False where none can.
bool call_probes::link(const opened_file& file, std::vector<probe_place> places, std::uint32_t only_process) {
  const mapped_here seen(file);
  places.erase(std::remove_if(places.begin(), places.end(),
                              [&](const probe_place& p) {
                                const bool bad = begins_with_prefix(file, p.offset);
                                if (bad) left_out_.push_back(functions_[p.function - 1].name);
                                return bad;
                              }),
               places.end());
  if (places.empty()) return false;
  int error = 0;
  // Returns first: an entry whose return is not seen would seem to be open for ever.
  const auto link_all = [&] {
    if (kind_ == link_kind::session) return add_entries(probes_, file.fd(), places, only_process);
    if (kind_ == link_kind::pair) {
      const int why = probes_.add_many(::bpf_program__fd(program("call_return")), attach_uprobe_multi, true, file.fd(),
                                       places, only_process);
      return why != 0 ? why : add_entries(probes_, file.fd(), places, only_process);
    }
    std::vector<probe_place> bad, again;
    const int why = probes_.add_each(program("call_return"), true, file.fd(), places, only_process, bad);
    for (const probe_place& p : bad) {
      left_out_.push_back(functions_[p.function - 1].name);
      places.erase(
          std::find_if(places.begin(), places.end(), [&](const probe_place& one) { return one.offset == p.offset; }));
    }
    return why != 0 ? why : probes_.add_each(program("call_entry"), false, file.fd(), places, only_process, again);
  };
  // For links to one other process the kernel does not check the mapping in this one, so places are tried here first.
  if (kind_ != link_kind::single && only_process != 0) sort_out(file, places);
  error = link_all();
  if (is_about_places(error)) {
    sort_out(file, places);
    error = link_all();
  }
  if (error != 0) throw refusal("no probes on " + file.path(), error);
  return !places.empty();
}

bool call_probes::attach_joins(const opened_file& file, const char* symbol, std::uint32_t only_process) {
  const std::uint64_t offset = elf_file(file).function_offset(symbol);
  if (offset == 0) return false;
  bpf_program* const program = ::bpf_object__find_program_by_name(object_, "call_joins");
  std::vector<probe_place> left_out;
  const int error = kind_ == link_kind::single
                        ? probes_.add_each(program, false, file.fd(), {{offset, 0}}, only_process, left_out)
                        : probes_.add_many(::bpf_program__fd(program), attach_uprobe_multi, false, file.fd(),
                                           {{offset, 0}}, only_process);
  if (error != 0 || !left_out.empty()) throw refusal("no probe on " + file.path(), error != 0 ? error : ENOTSUP);
  return true;
}

void call_probes::detach() {
  probes_.clear();
  files_.clear();
}

uprobe_links call_probes::attach_empty(const opened_file& file) {
  std::vector<probe_place> places;
  for (const driver_function& f : elf_file(file).driver_functions()) places.push_back({f.offset, 0});
  uprobe_links made;
  for (const bool at_return : {true, false}) {
    const bpf_program* empty = program(at_return ? "empty_return" : "empty_entry");
    if (const int error = made.add_many(::bpf_program__fd(empty), attach_uprobe_multi, at_return, file.fd(), places, 0))
      throw refusal("no empty probes on " + file.path(), error);
  }
  return made;
}

int call_probes::wake_fd() const { return ring_ != nullptr ? ::ring_buffer__epoll_fd(ring_) : -1; }

void call_probes::consume(const std::function<bool(const void*, std::size_t)>& take) {
  if (!kept_.empty()) {
    if (!take(kept_.data(), kept_.size())) return;
    kept_.clear();
  }
  take_ = &take;
  ::ring_buffer__consume(ring_);
  take_ = nullptr;
}

}  // namespace cutrace_ebpf
