// SPDX-License-Identifier: Apache-2.0
#include "cutrace/requested_probes.hpp"

#if defined(CUTRACE_WITH_EBPF)
#include "cutrace/bpf_places.hpp"
#include "cutrace/say.hpp"
#include "driver_files.hpp"
#endif

namespace cutrace_tool {

requested_probes::~requested_probes() = default;

#if defined(CUTRACE_WITH_EBPF)

requested_probes::requested_probes(const std::vector<std::string>& wanted) {
  if (wanted.empty()) return;
  kernel_ = std::make_unique<cutrace_ebpf::kernel_catalog>(kernel_root());
  chosen_ = choose_probes(wanted, *kernel_);
}

void requested_probes::find_libraries(const std::string& executable,
                                      const std::map<std::string, std::string>& environment) {
  if (chosen_.empty()) return;
  const std::vector<cutrace_ebpf::opened_file> drivers = cutrace_ebpf::likely_drivers(executable, environment);
  cutrace_tool::find_libraries(chosen_, executable, environment, drivers.empty() ? nullptr : &drivers.front());
}

void requested_probes::find_libraries(std::uint32_t process) {
  if (chosen_.empty()) return;
  std::vector<cutrace_ebpf::opened_file> drivers;
  for (const cutrace_ebpf::mapped_file& m : cutrace_ebpf::mapped_drivers(process)) {
    try {
      drivers.push_back(cutrace_ebpf::open_mapped(process, m));
    } catch (const std::runtime_error&) {  // the probes of calls report it
    }
  }
  cutrace_tool::find_libraries(chosen_, "/proc/" + std::to_string(process) + "/exe", loader_environment(),
                               drivers.empty() ? nullptr : &drivers.front());
}

std::unique_ptr<cutrace_ebpf::user_probes> requested_probes::load(const cutrace_ebpf::call_probes& calls) {
  if (chosen_.empty()) return nullptr;
  auto loaded = std::make_unique<cutrace_ebpf::user_probes>(calls, *kernel_, chosen_);
  for (const std::string& note : loaded->new_notes()) say("cutrace: " + note);
  return loaded;
}

#else

requested_probes::requested_probes(const std::vector<std::string>&) {}
void requested_probes::find_libraries(const std::string&, const std::map<std::string, std::string>&) {}
void requested_probes::find_libraries(std::uint32_t) {}

#endif

}  // namespace cutrace_tool
