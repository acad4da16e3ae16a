// SPDX-License-Identifier: Apache-2.0
// Whatever stands between a process and a whole GPU of its own: MIG, MPS, virtual machines, vGPU, WSL.
#include "checks.hpp"
#include "nvml_probe.hpp"

namespace cutrace_tool::doctor {

namespace {

/// Instances that the driver shows as folders gi0, gi1, ...
std::size_t mig_instances(const setup& s) {
  std::size_t n = 0;
  const std::string top = "/proc/driver/nvidia/capabilities";
  for (const std::string& gpu : list(s, top))
    if (gpu.compare(0, 3, "gpu") == 0)
      for (const std::string& one : list(s, top + "/" + gpu + "/mig")) n += one.compare(0, 2, "gi") == 0;
  return n;
}

finding check_mig(const setup& s, const nvml_facts& nvml) {
  finding f{"gpu.mig", for_none, state::ok, "", ""};
  const std::size_t instances = mig_instances(s);
  std::size_t on = 0, reported = 0;
  for (const nvml_device& d : nvml.devices) {
    on += d.mig == 1;
    reported += d.mig >= 0;
  }
  if (!nvml.unread.empty() && instances == 0) {
    f.state = state::unknown;
    f.what = "MIG: not checked, because " + nvml.unread;
  } else if (on == 0 && instances == 0) {
    f.what = reported != 0 ? "MIG is off" : "no device with MIG";
  } else if (instances == 0) {
    f.state = state::limited;
    f.what = "MIG is on for " + std::to_string(on) + " of the devices, with no instance: CUDA cannot use them";
    f.remedy = "make an instance (nvidia-smi mig -cgi ... -C), or turn MIG off (nvidia-smi -mig 0)";
  } else {
    f.what = "MIG is on, " + std::to_string(instances) + (instances == 1 ? " instance" : " instances") +
             "; a process sees one: CUDA_VISIBLE_DEVICES picks it";
  }
  return f;
}

bool runs(const setup& s, const std::string& name) {
  for (const std::string& pid : list(s, "/proc"))
    if (pid.find_first_not_of("0123456789") == std::string::npos &&
        read_file(s, "/proc/" + pid + "/comm").text == name.substr(0, 15))  // the kernel keeps 15 bytes
      return true;
  return false;
}

finding check_mps(const setup& s) {
  finding f{"gpu.mps", for_cupti, state::ok, "no sign of MPS", ""};
  const std::string pipes = variable("CUDA_MPS_PIPE_DIRECTORY");
  const bool control = runs(s, "nvidia-cuda-mps-control");  // the server's name begins with the same 15 bytes
  if (!control && pipes.empty()) return f;
  f.state = state::unknown;
  f.what = control ? "MPS runs on this machine" : "CUDA_MPS_PIPE_DIRECTORY is set to " + pipes;
  f.what += ": programs may be clients of one shared server; cutrace has not been tested there";
  f.remedy = "cutrace doctor --try shows whether records arrive here";
  return f;
}

finding check_machine(const setup& s, const nvml_facts& nvml) {
  finding f{"gpu.virtual", for_all, state::ok, "", ""};
  const machine_file cpu = read_file(s, "/proc/cpuinfo");
  const std::string kernel = read_file(s, "/proc/sys/kernel/osrelease").text;
  if (exists(s, "/dev/dxg") || kernel.find("microsoft") != std::string::npos) {
    f.state = state::limited;
    f.what = "WSL: the driver is that of Windows, and there is no kernel module whose ioctls could be seen";
    f.remedy = "for a whole trace, run Linux itself";
    return f;
  }
  const auto vgpu = [](const nvml_device& d) { return d.virtualisation == 2; };
  if (std::any_of(nvml.devices.begin(), nvml.devices.end(), vgpu)) {
    f.state = state::limited;
    f.what = "the GPU is a vGPU: its host decides what profilers may do in it";
    f.remedy =
        "cutrace doctor --try shows whether records arrive; else the host's administrator sets enable_profiling=1";
    return f;
  }
  if (!cpu.read()) {
    f.state = state::unknown;
    f.what = "virtual machine: not checked, because " + cpu.why();
    return f;
  }
  const bool guest = (" " + field(cpu.text, "flags") + " ").find(" hypervisor ") != std::string::npos;
  const auto known = [](const nvml_device& d) { return d.virtualisation >= 0; };
  f.what = guest ? "a virtual machine" : "no hypervisor is reported by the processor";
  if (std::any_of(nvml.devices.begin(), nvml.devices.end(), known)) f.what += "; the GPU is no vGPU";
  return f;
}

}  // namespace

findings check_virtual(const setup& s, const driver_facts& driver) {
  nvml_facts nvml;
  if (driver.loaded())
    nvml = ask_nvml(s);
  else
    nvml.unread = "there is no driver";
  return {check_mig(s, nvml), check_mps(s), check_machine(s, nvml)};
}

}  // namespace cutrace_tool::doctor
