// SPDX-License-Identifier: Apache-2.0
// Kernels of a Perfetto trace: name, shape of the launch, stage. A program launches its kernels in few shapes, so what
// readers of arguments want stands once for each combination, and each launch only has its number (and grid and block
// in their own fields, for readers of those). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/detail/json_text.hpp>
#include <cutrace/event.hpp>
#include <cutrace/names.hpp>
#include <cutrace/sinks/perfetto_about.hpp>
#include <cutrace/sinks/perfetto_fields.hpp>
#include <cutrace/sinks/perfetto_names.hpp>
#include <cutrace/sinks/perfetto_notes.hpp>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

class kernel_numbers {
  /// All members before the first that differs from launch to launch.
  static constexpr std::size_t shape_bytes = offsetof(kernel_data, graph_id);
  static_assert(shape_bytes % 8 == 0, "compared word by word");
  static constexpr std::size_t words = shape_bytes / 8 + 5;
  using table = number_table<words>;

 public:
  CUTRACE_INLINE std::uint32_t of(const event& e) {
    typename table::key k;
    std::memcpy(k.word, &e.kernel, shape_bytes);
    std::uint64_t* more = k.word + shape_bytes / 8;
    more[0] = reinterpret_cast<std::uintptr_t>(e.name.data);
    more[1] = reinterpret_cast<std::uintptr_t>(e.kernel.mangled_name.data);
    more[2] = e.stage_id != 0 ? reinterpret_cast<std::uintptr_t>(e.stage_name.data) : 0;
    more[3] = e.capture_stage_id != 0 ? reinterpret_cast<std::uintptr_t>(e.capture_stage_name.data) : 0;
    more[4] = static_cast<std::uint64_t>(e.joined) | std::uint64_t{e.name.size} << 8;
    return numbers_.of(k);
  }
  bool full() const noexcept { return numbers_.full(); }
  void clear() { numbers_.clear(); }

  /// Adds the meaning of `number`, which `of` gave for `e`, to interned data. `architecture` may be empty.
  static void describe(protozero::pbf_writer& data, std::uint32_t number, const event& e,
                       const std::string& architecture) {
    const kernel_data& k = e.kernel;
    protozero::pbf_writer kernel(data, pf::interned::compute_kernels);
    kernel.add_uint64(pf::interned::iid, number);
    const std::string_view mangled = view_of(k.mangled_name.size != 0 ? k.mangled_name : e.name);
    kernel.add_string(pf::interned::text, perfetto_text(mangled));
    kernel.add_string(pf::interned::kernel_demangled, perfetto_text(view_of(e.name)));
    if (!architecture.empty()) kernel.add_string(pf::interned::kernel_arch, architecture);
    const std::uint64_t blocks = volume(k.grid), threads = volume(k.block);
    argument(kernel, "grid_size", blocks);
    argument(kernel, "workgroup_size", threads);
    argument(kernel, "thread_count", blocks * threads);
    argument(kernel, "registers_per_thread", k.registers_per_thread);
    argument(kernel, "shared_mem_static", k.static_shared_bytes);
    argument(kernel, "shared_mem_dynamic", k.dynamic_shared_bytes);
    if (k.local_bytes_per_thread != 0) argument(kernel, "local_bytes_per_thread", k.local_bytes_per_thread);
    if (k.cluster[0] != 0) argument(kernel, "cluster_size", volume(k.cluster));
    if (k.priority != 0) argument(kernel, "priority", std::to_string(k.priority));
    if (e.stage_id != 0) argument(kernel, "stage", perfetto_text(view_of(e.stage_name)));
    if (e.capture_stage_id != 0) argument(kernel, "capture_stage", perfetto_text(view_of(e.capture_stage_name)));
    if (e.joined != attribution::by_call) argument(kernel, "attribution", std::string(to_string(e.joined)));
  }

 private:
  static std::uint64_t volume(const std::uint32_t (&v)[3]) noexcept { return std::uint64_t{v[0]} * v[1] * v[2]; }
  static void argument(protozero::pbf_writer& kernel, const char* name, std::uint64_t value) {
    protozero::pbf_writer one(kernel, pf::interned::kernel_args);
    one.add_string(pf::gpu::arg_name, name);
    one.add_uint64(pf::gpu::arg_uint, value);
  }
  static void argument(protozero::pbf_writer& kernel, const char* name, const std::string& value) {
    protozero::pbf_writer one(kernel, pf::interned::kernel_args);
    one.add_string(pf::gpu::arg_name, name);
    one.add_string(pf::gpu::arg_string, value);
  }

  table numbers_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
