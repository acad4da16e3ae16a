// SPDX-License-Identifier: Apache-2.0
#if defined(CUTRACE_WITH_EBPF)
#include "cutrace/bpf_script.hpp"

#include <fmt/format.h>

#include <cutrace/version.hpp>
#include <set>

#include "cutrace/bpf_places.hpp"
#include "cutrace/exit_status.hpp"
#include "cutrace/probe_choice.hpp"

namespace cutrace_tool {

namespace eb = cutrace_ebpf;

namespace {

constexpr const char* six_registers = "arg0, arg1, arg2, arg3, arg4, arg5";
constexpr const char* six_words = "0x%llx, 0x%llx, 0x%llx, 0x%llx, 0x%llx, 0x%llx";

/// "cuA*, cuB*, ...", a pattern for each letter behind "cu", since bpftrace knows no classes of characters. It makes
/// one link of each pattern. Only capital letters occur: the driver's API.
std::string attach_points(const std::string& kind, const std::string& driver,
                          const std::vector<std::string>& functions) {
  std::set<char> letters;
  for (const std::string& f : functions) letters.insert(f[2]);
  std::string text;
  for (const char c : letters) text += fmt::format("{}{}:{}:cu{}*", text.empty() ? "" : ",\n", kind, driver, c);
  return text;
}

std::string calls(const std::string& driver, const std::vector<std::string>& functions) {
  return attach_points("uprobe", driver, functions) + R"(
{
  $d = @depth[tid];
  @traced[pid] = 1;
  @name[tid, $d] = func;
  @begin[tid, $d] = nsecs;
  @words[tid, $d] = )" +
         fmt::format("({});\n", six_registers) + R"(  @depth[tid] = $d + 1;
}

)" + attach_points("uretprobe", driver, functions) +
         R"(
/@depth[tid] > 0/
{
  $d = @depth[tid] - 1;
  $w = @words[tid, $d];
  printf("%llu %d %d %s()" +
         six_words + R"() = %d, %llu ns", @begin[tid, $d], pid, tid, @name[tid, $d],
         $w.0, $w.1, $w.2, $w.3, $w.4, $w.5, (int32)retval, nsecs - @begin[tid, $d]);
  if ($d > 0) {
    printf(" in %s", @name[tid, $d - 1]);
  }
  printf("\n");
  delete(@name[tid, $d]);
  delete(@begin[tid, $d]);
  delete(@words[tid, $d]);
  @depth[tid] = $d;
}
)";
}

/// What is printed of arguments: format and expressions.
struct printed {
  std::string format, values;
};
printed typed_arguments(const eb::kernel_function& f, bool by_name) {
  printed p;
  for (std::size_t i = 0; i < f.arguments.size(); ++i) {
    const eb::typed_value& v = f.arguments[i];
    if (!v.readable) continue;
    p.format += (p.format.empty() ? "" : ", ") + v.name + (v.is_pointer ? "=0x%llx" : "=%lld");
    p.values += ", " + (by_name ? "(uint64)args." + v.name : "arg" + std::to_string(i));
  }
  return p;
}

std::string span(const std::string& entry, const std::string& exit, const std::string& name, std::size_t number,
                 const printed& arguments, bool at_exit, bool in_kernel, const std::string& result) {
  const std::string filter = in_kernel ? "\n/@traced[pid]/" : "", key = fmt::format("@p{}", number);
  std::string text = fmt::format("\n{}{}\n{{\n  {}[tid] = nsecs;\n", entry, filter, key);
  if (!at_exit) text += fmt::format("  {}_words[tid] = ({});\n", key, six_registers);
  text += fmt::format("}}\n\n{}\n/{}[tid]/\n{{\n", exit, key);
  if (!at_exit) text += fmt::format("  $w = {}_words[tid];\n", key);
  text += fmt::format("  printf(\"%llu %d %d {}({}){}, %llu ns\\n\", {}[tid], pid, tid{}{}, nsecs - {}[tid]);\n", name,
                      arguments.format, result.empty() ? "" : " = 0x%llx", key, arguments.values,
                      result.empty() ? "" : ", " + result, key);
  text += fmt::format("  delete({}[tid]);\n", key);
  if (!at_exit) text += fmt::format("  delete({}_words[tid]);\n", key);
  return text + "}\n";
}

std::string probe(const chosen_probe& c, const std::string& driver, std::size_t number) {
  const std::string module = c.function.module.empty() || c.function.module == "vmlinux" ? "" : c.function.module + ":";
  const printed registers{six_words, ", $w.0, $w.1, $w.2, $w.3, $w.4, $w.5"};
  const auto two = [&](const char* kind, const std::string& at) { return std::string(kind) + ":" + at + c.spec.name; };
  switch (c.spec.kind) {
    case eb::probe_kind::uprobe: {
      const std::string library = (c.library ? absolute(c.library->path()) : driver) + ":";
      return span(two("uprobe", library), two("uretprobe", library), c.spec.name, number, registers, false, false,
                  "retval");
    }
    case eb::probe_kind::kprobe:
      return span(two("kprobe", module), two("kretprobe", module), c.spec.name, number, registers, false, true,
                  "retval");
    case eb::probe_kind::fentry:
      return span(two("fentry", module), two("fexit", module), c.spec.name, number, typed_arguments(c.function, true),
                  true, true, c.function.has_result ? "(uint64)retval" : "");
    case eb::probe_kind::tracepoint: {
      const printed arguments = typed_arguments(c.function, false);
      return fmt::format(
          "\nrawtracepoint:{}\n/@traced[pid]/\n{{\n  printf(\"%llu %d %d {}({})\\n\", nsecs, pid, tid{});\n}}\n",
          c.spec.name, c.spec.name, arguments.format, arguments.values);
    }
  }
  return {};
}

/// `driver`: an absolute path. `functions`: its functions of the driver's API.
std::string bpftrace_script(const std::string& driver, const std::vector<std::string>& functions,
                            const std::vector<chosen_probe>& probes) {
  std::size_t limit = 1024;
  while (limit < 2 * (functions.size() + probes.size())) limit *= 2;
  std::string text = fmt::format(R"(#!/usr/bin/env bpftrace
// Calls of the driver, as far as bpftrace can do what `cutrace run --method ebpf` does. Made by cutrace {}.
//
//   sudo bpftrace SCRIPT -c './program'     or, for a process that runs already, -p PID
//
// For bpftrace 0.20 or newer: those before make a link for each function, and need minutes to take them off again.
// max_probes: {} functions, at entry and return; bpftrace's usual limit is 512, or 1024 from 0.23 on.
// A line is: begin in ns of CLOCK_MONOTONIC, process, thread, NAME(six registers) = result, how long, and the call that
// it was made in. Names are looked up when they are printed: of a process that has ended, addresses remain. A function
// with two symbols is reported twice, a call that is left by longjmp or an exception makes those around it wrong, and what
// finds no room is lost; cutrace knows of all three.
config = {{
  max_probes = {}
}}

BEGIN {{ printf("tracing; Ctrl-C ends it\n"); }}

)",
                                 CUTRACE_VERSION_STRING, functions.size(), limit);
  text += calls(driver, functions);
  for (std::size_t i = 0; i < probes.size(); ++i) text += probe(probes[i], driver, i);
  text += "\nEND\n{\n  clear(@depth);\n  clear(@traced);\n  clear(@name);\n  clear(@begin);\n  clear(@words);\n";
  for (std::size_t i = 0; i < probes.size(); ++i) {
    if (probes[i].spec.kind == eb::probe_kind::tracepoint) continue;
    text += fmt::format("  clear(@p{});\n", i);
    if (probes[i].spec.kind != eb::probe_kind::fentry) text += fmt::format("  clear(@p{}_words);\n", i);
  }
  return text + "}\n";
}

}  // namespace

std::string print_bpftrace(const std::string& library, const std::vector<std::string>& wanted) {
  const eb::kernel_catalog kernel(kernel_root());
  std::vector<chosen_probe> probes = choose_probes(wanted, kernel);
  try {
    const eb::opened_file file = library_or_driver(library);
    find_libraries(probes, "", loader_environment(), &file);
    std::vector<std::string> functions;
    for (const std::string& name : function_names(file))
      if (eb::is_driver_name(name.c_str())) functions.push_back(name);
    if (functions.empty()) throw usage_error(file.path() + " has no function of the driver (cu and a capital letter)");
    return bpftrace_script(absolute(file.path()), functions, probes);
  } catch (const usage_error&) {
    throw;
  } catch (const std::runtime_error& e) {
    throw usage_error(e.what());
  }
}

}  // namespace cutrace_tool
#endif
