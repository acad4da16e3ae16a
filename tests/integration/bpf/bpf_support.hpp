// SPDX-License-Identifier: Apache-2.0
// `cutrace bpf` and what it said; and a kernel of files: this machine's types, with a module "nvidia" of two functions
// and a tracepoint that has types, too, a module without types, and a table of symbols.
#pragma once

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../../support/child_process.hpp"

namespace bpf_tests {

struct said {
  temporary_folder folder;
  test_support::finished_process ended;

  explicit said(std::vector<std::string> options, const std::map<std::string, std::string>& environment = {}) {
    options.insert(options.begin(), {CUTRACE_COMMAND, "bpf"});
    ended = test_support::run_process(options, folder.path(), environment);
  }
  bool text(const std::string& part) const { return ended.output.find(part) != std::string::npos; }
  bool error(const std::string& part) const { return ended.errors.find(part) != std::string::npos; }
};

class kernel_of_files {
 public:
  kernel_of_files() {
    std::filesystem::create_directories(folder_.file("sys/kernel/btf"));
    std::filesystem::create_directories(folder_.file("proc"));
    std::filesystem::create_symlink("/sys/kernel/btf/vmlinux", folder_.file("sys/kernel/btf/vmlinux"));
    std::ofstream(folder_.file("proc/kallsyms")) << "0000000000000000 T vfs_read\n"
                                                    "0000000000000000 t vfs_read.cold\n"
                                                    "0000000000000000 T __pfx_vfs_read\n"
                                                    "0000000000000000 D nvidia_data\t[nvidia]\n"
                                                    "0000000000000000 t nvidia_unlocked_ioctl\t[nvidia]\n"
                                                    "0000000000000000 t nvidia_gone\t[nvidia]\n"
                                                    "0000000000000000 t rm_ioctl\t[nvidia]\n"
                                                    "0000000000000000 t nv_kthread_q_init\t[nvidia]\n"
                                                    "0000000000000000 t nv_kthread_q_init\t[nvidia_uvm]\n";
    btf* const kernel = ::btf__parse("/sys/kernel/btf/vmlinux", nullptr);
    btf* const module = ::btf__new_empty_split(kernel);
    const int number = ::btf__add_int(module, "unsigned int", 4, 0);
    const int wide = ::btf__add_int(module, "long", 8, BTF_INT_SIGNED);
    const int file = ::btf__add_fwd(module, "file", BTF_FWD_STRUCT);
    const int pointer = ::btf__add_ptr(module, file);
    const int nothing = ::btf__add_ptr(module, 0);
    ::btf__add_func_proto(module, wide);
    ::btf__add_func_param(module, "file", pointer);
    ::btf__add_func_param(module, "cmd", number);
    ::btf__add_func_param(module, "i_arg", wide);
    ::btf__add_func(module, "nvidia_unlocked_ioctl", BTF_FUNC_STATIC, static_cast<int>(::btf__type_cnt(module)) - 1);
    const int xid = ::btf__add_func_proto(module, 0);
    ::btf__add_func_param(module, nullptr, nothing);
    ::btf__add_func_param(module, nullptr, number);
    ::btf__add_typedef(module, "btf_trace_nvidia_dev_xid", ::btf__add_ptr(module, xid));
    const int caller = ::btf__add_func_proto(module, number);
    ::btf__add_func_param(module, "__data", nothing);
    ::btf__add_func_param(module, "error_code", number);
    ::btf__add_func(module, "__traceiter_nvidia_dev_xid", BTF_FUNC_STATIC, caller);
    __u32 bytes = 0;
    const void* const data = ::btf__raw_data(module, &bytes);
    std::ofstream(folder_.file("sys/kernel/btf/nvidia"), std::ios::binary)
        .write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    ::btf__free(module);
    ::btf__free(kernel);
  }
  std::map<std::string, std::string> environment() const { return {{"CUTRACE_BPF_ROOT", folder_.path()}}; }

 private:
  temporary_folder folder_;
};

}  // namespace bpf_tests
