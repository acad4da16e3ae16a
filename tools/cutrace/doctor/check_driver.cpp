// SPDX-License-Identifier: Apache-2.0
// The CUDA driver: is there one, does it start, do its two halves fit, which devices does it show.
#include "checks.hpp"

namespace cutrace_tool::doctor {

namespace {

std::string version_text(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

finding check_library(const setup& s, const driver_facts& d) {
  finding f{"driver.library", for_all, state::ok, "", ""};
  if (d.loaded()) {
    f.what = "libcuda.so.1 is " + d.path +
             (d.version != 0 ? ", " + version_text(d.version) : std::string(", which does not say its CUDA version"));
    return f;
  }
  f.state = state::broken;
  f.remedy =
      "install NVIDIA's driver; in a container, start it with the GPU (docker run --gpus all, or the NVIDIA device "
      "plugin of the cluster), which mounts the host's libcuda.so.1";
  if (!d.load_error.empty()) {
    f.what = "no CUDA driver: " + d.load_error;
    if (d.load_error.find("libcuda.so.1") == std::string::npos ||
        d.load_error.find("No such file") == std::string::npos)
      f.remedy =
          "the loader finds a libcuda.so.1 that it cannot use: repair the driver's installation, or LD_LIBRARY_PATH";
    return f;
  }
  f.what = "libcuda.so.1 cannot be loaded: " + d.probe.failure(s.patience_seconds);
  return f;
}

/// The kernel's half: the first number with a point in its file, as "580.95.05".
std::string module_release(const std::string& text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] < '0' || text[at] > '9' || (at != 0 && text[at - 1] != ' ')) continue;
    const std::size_t end = std::min(text.find_first_not_of("0123456789.", at), text.size());
    const std::string word = text.substr(at, end - at);
    if (word.find('.') != std::string::npos) return word;
    at = end;
  }
  return {};
}

finding check_module(const setup& s, const driver_facts& d) {
  finding f{"driver.module", for_all, state::ok, "", ""};
  const machine_file file = read_file(s, "/proc/driver/nvidia/version");
  const bool wsl = exists(s, "/dev/dxg");
  if (!file.read()) {
    if (file.absent() && d.usable()) {
      f.what =
          wsl ? "the kernel module is that of Windows (WSL)"
              : "no /proc/driver/nvidia/version, so no kernel module of NVIDIA; the driver works all the same, as a "
                "stand-in does";
      return f;
    }
    f.state = file.absent() ? state::broken : state::unknown;
    f.what = file.absent() ? "NVIDIA's kernel module is not loaded (no /proc/driver/nvidia/version)"
                           : "not checked, because " + file.why();
    if (file.absent())
      f.remedy =
          "modprobe nvidia on the host; if it is refused, dmesg says why (Secure Boot, a kernel that is newer "
          "than the module)";
    return f;
  }
  const std::string module = module_release(file.text);
  if (module.empty()) {
    f.state = state::unknown;
    f.what = "not checked, because /proc/driver/nvidia/version has no version that can be read";
    return f;
  }
  f.what = "kernel module " + module;
  // A library of the folder compat/ is meant to be newer than the module.
  const bool compat = d.path.find("/compat") != std::string::npos;
  if (d.release.empty()) {
    f.what += "; the name of libcuda's file does not say whether it is of the same release";
  } else if (d.release == module || compat) {
    f.what += d.release == module ? ", as the library" : ", library " + d.release + " for forward compatibility";
  } else {
    f.state = d.init == 0 ? state::limited : state::broken;
    f.what += ", but the library is of " + d.release;
    f.remedy =
        "both halves of a driver must be of one release: reboot or reload the module after an update; in a "
        "container, take the host's library";
  }
  return f;
}

std::string init_remedy(int result) {
  switch (result) {  // CUresult of cuda.h
    case 100:
      return "the driver sees no device: check nvidia-smi, CUDA_VISIBLE_DEVICES, and that the container was given a "
             "GPU";
    case 802:
      return "the system is not ready: on NVSwitch machines start nvidia-fabricmanager";
    case 803:
      return "library and kernel module are of different releases: reboot or reload the module; in a container, remove "
             "its own libcuda.so.1";
    case 804:
      return "this GPU takes no forward compatibility: remove the folder compat/ from the loader's paths, or update "
             "the "
             "driver";
    case 999:
      return "reload nvidia_uvm, and look at dmesg for lines of NVRM (Xid)";
    default:
      return "nvidia-smi and dmesg (lines of NVRM) say more";
  }
}

finding check_init(const setup& s, const driver_facts& d) {
  finding f{"driver.init", for_all, state::ok, "cuInit works", ""};
  if (!d.loaded()) {
    f.state = state::unknown;
    f.what = "not checked, because there is no driver";
  } else if (d.init > 0) {
    f.state = state::broken;
    f.what = "cuInit returns " + d.init_name;
    f.remedy = init_remedy(d.init);
  } else if (d.init < 0) {
    f.state = state::broken;
    const std::string failure = d.probe.failure(s.patience_seconds);
    f.what = failure.empty() ? "libcuda.so.1 has no cuInit: it is no CUDA driver" : failure;
    f.remedy = failure.empty() ? "LD_LIBRARY_PATH or the loader's cache leads to a file that only bears the name"
                               : "nvidia-smi and dmesg (lines of NVRM) say more; --patience waits longer";
  }
  return f;
}

finding check_devices(const driver_facts& d) {
  finding f{"driver.devices", for_all, state::ok, "", ""};
  if (d.init != 0) {
    f.state = state::unknown;
    f.what = "not checked, because " + std::string(d.loaded() ? "cuInit does not work" : "there is no driver");
    return f;
  }
  if (d.devices.empty()) {
    f.state = state::broken;
    f.what = "the driver shows no device";
    f.remedy = "CUDA_VISIBLE_DEVICES may hide them";
    return f;
  }
  f.what = std::to_string(d.devices.size()) + (d.devices.size() == 1 ? " device: " : " devices: ");
  std::size_t prohibited = 0;
  bool exclusive = false;
  for (std::size_t i = 0; i < d.devices.size();) {
    std::size_t same = i;
    for (; same < d.devices.size() && d.devices[same].name == d.devices[i].name; ++same) {
      prohibited += d.devices[same].compute_mode == 2;
      exclusive = exclusive || d.devices[same].compute_mode == 3;
    }
    f.what += std::string(i != 0 ? ", " : "") + (same - i > 1 ? std::to_string(same - i) + " x " : "") +
              d.devices[i].name + " (compute capability " + std::to_string(d.devices[i].capability_major) + "." +
              std::to_string(d.devices[i].capability_minor) + ")";
    i = same;
  }
  if (exclusive) f.what += "; compute mode exclusive: one process at a time";
  if (prohibited != 0) {
    f.state = prohibited == d.devices.size() ? state::broken : state::limited;
    f.what += "; compute mode prohibited on " + std::to_string(prohibited);
    f.remedy = "nvidia-smi -c DEFAULT lets programs use them";
  }
  return f;
}

}  // namespace

findings check_driver(const setup& s, const driver_facts& d) {
  return {check_library(s, d), check_module(s, d), check_init(s, d), check_devices(d)};
}

}  // namespace cutrace_tool::doctor
