// SPDX-License-Identifier: Apache-2.0
#include "cutrace/probe_choice.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cutrace/exit_status.hpp"

#if defined(CUTRACE_WITH_EBPF)
#include <algorithm>
#include <cstdlib>

#include "cutrace/bpf_places.hpp"
#endif

namespace cutrace_tool {

void add_probe_option(CLI::App& app, std::vector<std::string>& to) {
  app.add_option("--probe", to,
                 "A probe of your own, as KIND:[LIBRARY or MODULE:]NAME; kinds are uprobe, tracepoint, fentry, kprobe. "
                 "cutrace bpf --list shows names. May be given several times")
      ->type_name("PROBE")
      ->allow_extra_args(false);
}

#if defined(CUTRACE_WITH_EBPF)

namespace eb = cutrace_ebpf;

const char* kernel_root() {
  const char* const root = std::getenv("CUTRACE_BPF_ROOT");
  return root != nullptr ? root : "";
}

namespace {

void check_function(const eb::probe_spec& p, const eb::opened_file& file) {
  const std::vector<std::string> names = function_names(file);
  if (!std::binary_search(names.begin(), names.end(), p.name))
    throw usage_error("--probe " + p.text() + ": " + file.path() + " has no function of that name" +
                      eb::nearest_names(p.name, names));
}

eb::kernel_function find_in_kernel(const eb::probe_spec& p, const eb::kernel_catalog& kernel) {
  const bool point = p.kind == eb::probe_kind::tracepoint;
  if (!kernel.without_types().empty() && p.kind != eb::probe_kind::kprobe)
    throw usage_error("--probe " + p.text() + ": " + kernel.without_types());
  const auto is_it = [&](const std::string& module, const std::string& name) {
    return name == p.name && (p.where.empty() || module == p.where);
  };
  const std::vector<eb::kernel_function> found = point ? kernel.tracepoints(is_it) : kernel.functions(is_it);
  if (found.empty()) {
    std::vector<std::string> names;
    if (point)
      for (const eb::kernel_function& f : kernel.tracepoints([](const auto&, const auto&) { return true; }))
        names.push_back(f.name);
    else
      names = kernel.function_names();
    throw usage_error("--probe " + p.text() + ": this kernel has no such " + (point ? "tracepoint" : "function") +
                      eb::nearest_names(p.name, names));
  }
  if (found.size() > 1) {
    std::vector<std::string> ways;
    for (const eb::kernel_function& f : found) ways.push_back(eb::probe_spec{p.kind, f.module, f.name}.text());
    throw usage_error("--probe " + p.text() + ": there are several; choose " +
                      fmt::format("{}", fmt::join(ways, ", ")));
  }
  if (p.kind == eb::probe_kind::fentry && found[0].type_id == 0)
    throw usage_error("--probe " + p.text() + ": the kernel gives no types of this function, which fentry needs; " +
                      eb::probe_spec{eb::probe_kind::kprobe, p.where, p.name}.text() + " may do");
  return found[0];
}

}  // namespace

std::vector<chosen_probe> choose_probes(const std::vector<std::string>& wanted, const eb::kernel_catalog& kernel) {
  std::vector<chosen_probe> all;
  for (const std::string& text : wanted) {
    chosen_probe c;
    try {
      c.spec = eb::read_probe(text);
    } catch (const std::runtime_error& e) {
      throw usage_error("--probe: " + std::string(e.what()));
    }
    const auto same = [&](const chosen_probe& other) { return other.spec.text() == c.spec.text(); };
    if (std::any_of(all.begin(), all.end(), same)) continue;
    if (c.spec.kind != eb::probe_kind::uprobe) {
      c.function = find_in_kernel(c.spec, kernel);
      if (c.spec.kind == eb::probe_kind::fentry && c.function.module != "vmlinux")
        c.types = eb::open_module_types(c.function.module);
    }
    all.push_back(std::move(c));
  }
  return all;
}

void find_libraries(std::vector<chosen_probe>& probes, const std::string& executable,
                    const std::map<std::string, std::string>& environment, const eb::opened_file* driver) {
  for (chosen_probe& c : probes) {
    if (c.spec.kind != eb::probe_kind::uprobe) continue;
    try {
      if (!c.spec.where.empty()) {
        c.library = std::make_shared<eb::opened_file>(eb::find_library(c.spec.where, executable, environment));
        check_function(c.spec, *c.library);
        continue;
      }
      // With no driver found, the program may still load one: a function that it lacks is then reported at the end.
      if (driver != nullptr) check_function(c.spec, *driver);
    } catch (const usage_error&) {
      throw;
    } catch (const std::runtime_error& e) {
      throw usage_error("--probe " + c.spec.text() + ": " + e.what());
    }
  }
}

#endif

}  // namespace cutrace_tool
