// SPDX-License-Identifier: Apache-2.0
// Which functions and tracepoints the kernel and its modules have, by the types that they carry (BTF) and by kallsyms.
// Both are readable by every user on most systems; nothing here needs root, nor tracefs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

struct btf;

namespace cutrace_ebpf {

/// An argument or a result.
struct typed_value {
  std::string name, type;   ///< as in C
  std::uint32_t bytes = 0;  ///< of the value
  std::uint32_t slot = 0;   ///< which word of the probe's context holds it
  bool is_signed = false;
  bool is_pointer = false;
  bool readable = false;  ///< an integer or a pointer of at most eight bytes
};

struct kernel_function {
  std::string module;  ///< "vmlinux" for the kernel itself
  std::string name;
  std::uint32_t type_id = 0;  ///< in the module's BTF; 0: it has none, so that nothing is known of its arguments
  std::vector<typed_value> arguments;
  bool has_result = false;
  typed_value result;
};

class kernel_catalog {
 public:
  /// `root`: what stands before /proc and /sys, for tests with files of their own.
  explicit kernel_catalog(std::string root = {});
  ~kernel_catalog();
  kernel_catalog(const kernel_catalog&) = delete;
  kernel_catalog& operator=(const kernel_catalog&) = delete;

  /// Why there are no types; empty: there are.
  const std::string& without_types() const noexcept { return without_types_; }

  using wish = std::function<bool(const std::string& module, const std::string& name)>;
  /// Tracepoints: those with a typedef `btf_trace_...`, which is what typed programs attach to.
  std::vector<kernel_function> tracepoints(const wish& wanted) const;
  /// Functions in kallsyms, with their types where BTF has them.
  std::vector<kernel_function> functions(const wish& wanted) const;
  /// Names of all functions in kallsyms, without types: much faster.
  std::vector<std::string> function_names() const;

 private:
  struct module_types {
    std::string module;
    btf* types;
    std::uint32_t first;  ///< id of the first type of its own
  };
  void load_symbols() const;

  std::string root_, without_types_;
  std::vector<module_types> modules_;
  mutable bool symbols_loaded_ = false;
  mutable std::map<std::string, std::vector<std::string>> symbols_;  ///< functions by module, sorted
};

/// Whether a capability is in the effective set of this process.
bool has_capability(unsigned number);

}  // namespace cutrace_ebpf
