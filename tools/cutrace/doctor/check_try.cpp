// SPDX-License-Identifier: Apache-2.0
// The proof: a child with the injection library fills and copies one byte on the GPU, and its trace is read back.

#include <cstdint>
#include <cutrace/output/path_pattern.hpp>
#include <cutrace/run/settings.hpp>
#include <exception>
#include <fstream>

#include "../cutrace_libraries.hpp"
#include "checks.hpp"
#include "driver_calls.hpp"

#if CUTRACE_WITH_CUPTI
#include <cutrace/cupti/options.hpp>
#endif

namespace cutrace_tool::doctor {

namespace {

/// CUDA work of any program, without a call to cutrace. Each step is reported, so that a finding can name where it
/// hung.
void work(const reporter& t) {
  driver_calls cuda;
  t.step("loading libcuda.so.1");
  if (!cuda.open()) return t.report("fault", cuda.error);
  if (cuda.init == nullptr || cuda.device_get == nullptr || cuda.retain_context == nullptr ||
      cuda.set_context == nullptr || cuda.allocate == nullptr || cuda.fill == nullptr || cuda.copy_to_host == nullptr ||
      cuda.synchronize == nullptr || cuda.free == nullptr)
    return t.report("fault", "libcuda.so.1 lacks functions that every driver has");
  const auto good = [&](const char* what, int result) {
    if (result != 0) t.report("fault", std::string(what) + " returns " + cuda.explain(result));
    return result == 0;
  };
  int device = 0;
  void* context = nullptr;
  std::uint64_t memory = 0;
  unsigned char byte = 0;
  t.step("cuInit under the injection library");
  if (!good("cuInit", cuda.init(0)) || !good("cuDeviceGet", cuda.device_get(&device, 0))) return;
  t.step("making a context");
  if (!good("cuDevicePrimaryCtxRetain", cuda.retain_context(&context, device))) return;
  t.step("the work on the GPU");
  if (!good("cuCtxSetCurrent", cuda.set_context(context)) || !good("cuMemAlloc", cuda.allocate(&memory, 1)) ||
      !good("cuMemsetD8", cuda.fill(memory, 0x5a, 1)) || !good("cuMemcpyDtoH", cuda.copy_to_host(&byte, memory, 1)) ||
      !good("cuCtxSynchronize", cuda.synchronize()))
    return;
  cuda.free(memory);
  if (byte != 0x5a) t.report("fault", "the byte that came back from the GPU is not the one that was set");
}

/// Removes variables by which a trace leaves out what is looked for here; one that cannot be used is left, and shows.
void leave_out_choices() {
  try {
    static_cast<void>(cutrace::detail::complete({}));
#if CUTRACE_WITH_CUPTI
    cutrace::cupti::options::from_environment();
#endif
  } catch (const std::exception&) {
    return;
  }
  for (const char* choice : {"CUTRACE_KINDS", "CUTRACE_SAMPLE", "CUTRACE_START_AFTER", "CUTRACE_DURATION"})
    ::unsetenv(choice);
}

struct records {
  bool header = false, footer = false;
  std::size_t sets = 0, copies = 0, calls = 0;
};

records read_trace(const std::string& path) {
  records r;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto is = [&](const char* type) {
      return line.find("\"type\":\"" + std::string(type) + "\"") != std::string::npos;
    };
    r.header = r.header || is("header");
    r.footer = r.footer || is("footer");
    r.sets += is("memset");
    r.copies += is("memcpy");
    r.calls += is("api");
  }
  return r;
}

void judge(const setup& s, const probe_result& p, const records& r, finding& f) {
  const std::string said = p.said.empty() ? "" : "; it said: " + p.said.substr(0, p.said.find('\n'));
  const std::string fault = !p.failure(s.patience_seconds).empty() ? p.failure(s.patience_seconds) : p.text("fault");
  const std::string seen = std::to_string(r.sets) + " of 1 memset, " + std::to_string(r.copies) + " of 1 copy, " +
                           std::to_string(r.calls) + " driver calls recorded";
  if (fault.empty() && r.sets == 1 && r.copies == 1 && r.calls != 0 && r.footer) {
    f.what = "tried: " + seen;
    return;
  }
  f.state = state::broken;
  f.remedy = "where no line above says why: report it, with the output of cutrace doctor --json";
  if (!fault.empty())
    f.what = "tried: " + fault + said;
  else if (!r.header)
    f.what = "tried: the program ran, but no trace was written" + said;
  else
    f.what = "tried: the program ran, but " + seen + (r.footer ? "" : ", and the trace has no end") + said;
}

}  // namespace

findings check_try(const setup& s, const driver_facts& driver) {
  if (!s.try_it) return {};
  finding f{"try", for_cupti, state::ok, "", ""};
  std::string library;
  try {
    library = find_inject_library();
  } catch (const std::exception&) {  // check_cutrace_libraries reports it
  }
  if (!driver.usable() || library.empty()) {
    f.state = state::unknown;
    f.what = std::string("not tried, because ") +
             (library.empty() ? "libcutrace_inject.so is not found" : "there is no driver that works");
    return {f};
  }
  const std::string top = variable("TMPDIR").empty() ? "/tmp" : variable("TMPDIR");
  std::string folder = top + "/cutrace-doctor-XXXXXX";
  if (::mkdtemp(&folder[0]) == nullptr) {
    f.state = state::unknown;
    f.what = "not tried, because no folder can be made in " + top + ": " + std::strerror(errno);
    return {f};
  }
  const std::string trace = folder + "/trace.jsonl";
  const probe_result p = run_probe(s.patience_seconds, [&](const reporter& t) {
    ::setenv("CUDA_INJECTION64_PATH", library.c_str(), 1);
    ::setenv("CUTRACE_SINKS", ("jsonl:" + cutrace::detail::pattern_of_path(trace)).c_str(), 1);
    leave_out_choices();
    work(t);
  });
  judge(s, p, read_trace(trace), f);
  ::unlink(trace.c_str());
  ::rmdir(folder.c_str());
  return {f};
}

}  // namespace cutrace_tool::doctor
