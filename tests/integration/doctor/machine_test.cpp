// SPDX-License-Identifier: Apache-2.0
// Machines made of files: what kernels, containers and drivers say of themselves, and what doctor makes of it.
#include "doctor_run.hpp"

namespace machine_test {

using namespace doctor_run;  // NOLINT(google-build-using-namespace)

TEST_SUITE_BEGIN("doctor.machine");

namespace {

/// Bits of linux/capability.h.
std::string status_with(std::initializer_list<int> capabilities, const char* seccomp = "0") {
  unsigned long long bits = 0;
  for (const int c : capabilities) bits |= 1ull << c;
  char text[64];
  std::snprintf(text, sizeof(text), "Name:\tcutrace\nCapEff:\t%016llx\n", bits);
  return text + std::string("Seccomp:\t") + seccomp;
}
constexpr int sys_ptrace = 19, sys_admin = 21, perfmon = 38, bpf = 39;

}  // namespace

TEST_CASE("doctor: an empty machine is not guessed at") {
  const outcome o = made_machine().examined();
  for (const char* id : {"permission.counters", "bpf.kernel", "bpf.privilege", "lockdown", "gpu.virtual", "memory"}) {
    CAPTURE(std::string(id));
    CHECK(o.state(id) == "unknown");
    CHECK(o.reported(id, "not checked, because"));
  }
}

TEST_CASE("doctor: kernels, old to new") {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"4.19.0-26-amd64", "broken", "BPF cookies"},
      {"5.14.21", "broken", "BPF cookies"},
      {"5.15.0-91-generic", "limited", "no uprobe_multi"},
      {"6.6.1", "limited", "no uprobe sessions"},
      {"6.12.9", "limited", "no uprobe sessions"},
      {"6.13.0", "ok", "uprobe sessions"},
      {"7.0.0", "ok", "uprobe sessions"}};
  for (const auto& [release, state, part] : cases) {
    const std::string which = release;
    CAPTURE(which);
    const outcome o = made_machine().file("/proc/sys/kernel/osrelease", release).examined();
    CHECK(o.state("bpf.kernel") == state);
    CHECK(o.reported("bpf.kernel", part));
  }
  CHECK(made_machine().file("/proc/sys/kernel/osrelease", "nonsense").examined().state("bpf.kernel") == "unknown");
}

TEST_CASE("doctor: BTF and the rights of BPF") {
  made_machine m;
  CHECK(m.examined().state("bpf.btf") == "broken");
  m.file("/sys/kernel/btf/vmlinux");
  CHECK(m.examined().state("bpf.btf") == "ok");
  m.file("/proc/sys/kernel/unprivileged_bpf_disabled", "2").file("/proc/sys/kernel/perf_event_paranoid", "4");
  const auto with = [&](std::initializer_list<int> capabilities) {
    m.file("/proc/self/status", status_with(capabilities));
    return m.examined();
  };
  const outcome none = with({});
  CHECK(none.state("bpf.privilege") == "broken");
  CHECK(none.reported("bpf.privilege", "neither CAP_BPF nor CAP_PERFMON"));
  CHECK(none.reported("bpf.privilege", "perf_event_paranoid=4"));
  CHECK(none.because("ebpf", "bpf.privilege"));
  CHECK(none.process.exit_status == 0);  // cupti needs none of it
  CHECK(with({bpf}).reported("bpf.privilege", "CAP_BPF but not CAP_PERFMON"));
  CHECK(with({perfmon}).reported("bpf.privilege", "CAP_PERFMON but not CAP_BPF"));
  CHECK(with({bpf, perfmon}).state("bpf.privilege") == "ok");
  CHECK(with({sys_admin}).state("bpf.privilege") == "ok");
}

TEST_CASE("doctor: on the machine itself loading a BPF program and tracing a child are tried") {
  const outcome o = run(on_standin());
  CHECK(o.what("bpf.privilege").find("a BPF program for probes ") == 0);
  CHECK(o.reported("ptrace.scope", "tried with a child"));
  CHECK(o.reported("ptrace.seccomp", "tried with a child"));
}

TEST_CASE("doctor: that this user may write no file is a finding") {
  const temporary_folder folder;
  const test_support::finished_process p =
      test_support::run_process({"/bin/sh", "-c", "(ulimit -f 0; exec 2>/dev/null; " COMMAND " doctor) | cat"},
                                folder.path(), clean(on_standin()));
  CHECK(p.output.find("files cannot be written in ") != std::string::npos);
}

TEST_CASE("doctor: scopes of ptrace") {
  const std::tuple<const char*, bool, const char*> cases[] = {
      {"0", false, "ok"}, {"1", false, "ok"}, {"2", false, "broken"}, {"2", true, "ok"}, {"3", true, "broken"}};
  for (const auto& [scope, capable, state] : cases) {
    const std::string which = scope;
    CAPTURE(which);
    made_machine m;
    m.file("/proc/sys/kernel/yama/ptrace_scope", scope);
    m.file("/proc/self/status", capable ? status_with({sys_ptrace}) : status_with({}));
    CHECK(m.examined().state("ptrace.scope") == state);
    CHECK(m.examined().reported("ptrace.scope", std::string("ptrace_scope=") + scope));
  }
  made_machine m;
  CHECK(m.examined().state("ptrace.seccomp") == "unknown");
  m.file("/proc/sys/kernel/seccomp/actions_avail", "kill_process kill_thread trap errno user_notif trace log allow");
  m.file("/proc/self/status", status_with({}, "2"));
  CHECK(m.examined().state("ptrace.seccomp") == "ok");
  CHECK(m.examined().reported("ptrace.seccomp", "a filter is active already"));
  for (const auto& [release, state] :
       {std::pair<const char*, const char*>{"5.2.0-1", "broken"}, {"5.3.0", "ok"}, {"6.18.1", "ok"}}) {
    m.file("/proc/sys/kernel/osrelease", release);
    CHECK(m.examined().state("ptrace.kernel") == state);
  }
}

TEST_CASE("doctor: levels of lockdown") {
  const std::tuple<const char*, const char*> cases[] = {{"[none] integrity confidentiality", "ok"},
                                                        {"none [integrity] confidentiality", "limited"},
                                                        {"none integrity [confidentiality]", "limited"},
                                                        {"nonsense", "unknown"}};
  for (const auto& [text, state] : cases) {
    const std::string which = text;
    CAPTURE(which);
    CHECK(made_machine().file("/sys/kernel/security/lockdown", text).examined().state("lockdown") == state);
  }
}

TEST_CASE("doctor: permission for counters is reported, and decides nothing") {
  made_machine m;
  m.file("/proc/self/status", status_with({}));
  m.file("/proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\nEnableMSI: 1");
  const outcome closed = m.examined();
  CHECK(closed.reported("permission.counters", "administrators alone"));
  CHECK(closed.reported("permission.counters", "activity records"));
  CHECK(closed.finding("permission.counters").at("methods").empty());
  m.file("/proc/self/status", status_with({sys_admin}));
  CHECK(m.examined().reported("permission.counters", "this user is one"));
  m.file("/proc/driver/nvidia/params", "RmProfilingAdminOnly: 0");
  CHECK(m.examined().reported("permission.counters", "open to every user"));
}

TEST_CASE("doctor: device nodes") {
  const auto without_driver = [](const made_machine& m) {
    return run({{"CUTRACE_DOCTOR_ROOT", m.root()}, {"LD_LIBRARY_PATH", STANDIN_FOLDER}, {"LD_PRELOAD", HIDDEN_DRIVER}});
  };
  made_machine m;
  m.file("/dev/nvidiactl").file("/dev/nvidia3");
  const outcome some = without_driver(m);
  CHECK(some.state("device_nodes") == "broken");
  CHECK(some.what("device_nodes") == "missing: /dev/nvidia-uvm");
  m.file("/dev/nvidia-uvm").file("/dev/nvidia-modeset");
  const outcome all = without_driver(m);
  CHECK(all.state("device_nodes") == "ok");
  CHECK(all.what("device_nodes") == "/dev/nvidia-uvm, /dev/nvidia3, /dev/nvidiactl can be opened");
  std::filesystem::remove(m.root() + "/dev/nvidia3");
  std::filesystem::create_directory(m.root() + "/dev/nvidia3");  // which nobody can open for writing
  const outcome closed = without_driver(m);
  CHECK(closed.state("device_nodes") == "broken");
  CHECK(closed.reported("device_nodes", "cannot be opened: /dev/nvidia3: "));
  // Where the driver works without them, they are not needed.
  CHECK(made_machine().examined().state("device_nodes") == "ok");
}

TEST_CASE("doctor: MIG, MPS, virtual machines and WSL") {
  made_machine m;
  m.file("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu tsc constant_tsc hypervisor nonstop_tsc");
  CHECK(m.examined().what("gpu.virtual").find("a virtual machine") == 0);
  CHECK(m.examined().state("gpu.mps") == "ok");
  m.file("/proc/77/comm", "nvidia-cuda-mps");
  m.file("/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "x");
  m.file("/proc/driver/nvidia/capabilities/gpu0/mig/gi2/access", "x");
  const outcome o = m.examined();
  CHECK(o.state("gpu.mps") == "unknown");
  CHECK(o.reported("gpu.mps", "MPS runs on this machine"));
  CHECK(o.reported("gpu.mig", "2 instances"));
  CHECK(o.method("cupti").at("machine") == o.unknown_at_worst());
  m.file("/proc/cpuinfo", "flags : fpu tsc");
  CHECK(m.examined().what("gpu.virtual").find("no hypervisor") == 0);
  CHECK(m.examined({{"CUDA_MPS_PIPE_DIRECTORY", "/tmp/pipes"}}).state("gpu.mps") == "unknown");
  const outcome wsl = made_machine().file("/dev/dxg").examined();
  CHECK(wsl.state("gpu.virtual") == "limited");
  CHECK(wsl.reported("device_nodes", "/dev/dxg"));
  CHECK(wsl.process.exit_status == 0);
}

TEST_CASE("doctor: limits of memory") {
  const char* const none_v1 = "9223372036854771712";
  const auto with = [](const char* free, const char* limit) {
    made_machine m;
    m.file("/proc/meminfo", std::string("MemTotal: 99999999 kB\nMemAvailable:   ") + free + " kB");
    m.file("/proc/self/cgroup", "0::/some/group").file("/sys/fs/cgroup/some/group/memory.max", limit);
    return m.examined();
  };
  CHECK(with("8000000", "max").state("memory") == "ok");
  CHECK(with("8000000", "max").reported("memory", "MemAvailable"));
  CHECK(with("8000000", "268435456").state("memory") == "limited");
  CHECK(with("8000000", "268435456").reported("memory", "256 MiB"));
  CHECK(with("8000000", "268435456").reported("memory", "/sys/fs/cgroup/some/group/memory.max"));
  CHECK(with("8000000", "33554432").state("memory") == "broken");
  CHECK(with("30000", "max").state("memory") == "broken");
  // The limit of a job stands above the group that the process is in.
  made_machine job;
  job.file("/proc/self/cgroup", "0::/slurm/job_7/step_0/task_0").file("/proc/meminfo", "MemAvailable: 8000000 kB");
  job.file("/sys/fs/cgroup/slurm/job_7/step_0/task_0/memory.max", "max");
  job.file("/sys/fs/cgroup/slurm/job_7/memory.max", "268435456");
  CHECK(job.examined().state("memory") == "limited");
  CHECK(job.examined().reported("memory", "256 MiB"));
  // So do those of control groups v1, which a machine may have beside v2 without controllers.
  made_machine old;
  old.file("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/batch/job_7/step_0\n0::/");
  old.file("/proc/meminfo", "MemAvailable: 8000000 kB").file("/sys/fs/cgroup/memory/memory.limit_in_bytes", none_v1);
  old.file("/sys/fs/cgroup/memory/batch/job_7/step_0/memory.limit_in_bytes", none_v1);
  CHECK(old.examined().state("memory") == "ok");
  old.file("/sys/fs/cgroup/memory/batch/job_7/memory.limit_in_bytes", "268435456");
  CHECK(old.examined().reported("memory", "/sys/fs/cgroup/memory/batch/job_7/memory.limit_in_bytes"));
  old.file("/sys/fs/cgroup/memory/batch/job_7/step_0/memory.limit_in_bytes", "134217728");
  CHECK(old.examined().reported("memory", "128 MiB"));
  // What a session keeps is the user's choice.
  CHECK(job.examined({{"CUTRACE_MEMORY_LIMIT", "4M"}}).state("memory") == "ok");
  CHECK(job.examined({{"CUTRACE_MEMORY_LIMIT", "4M"}}).reported("memory", "a session keeps up to 4 MiB"));
  CHECK(job.examined({{"CUTRACE_MEMORY_LIMIT", "1G"}}).state("memory") == "broken");
}

TEST_SUITE_END();

}  // namespace machine_test
