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
#include <cutrace/detail/kept_slot.hpp>
#include <cutrace/event.hpp>
#include <cutrace/names.hpp>
#include <cutrace/sinks/perfetto_about.hpp>
#include <cutrace/sinks/perfetto_fields.hpp>
#include <cutrace/sinks/perfetto_names.hpp>
#include <cutrace/sinks/perfetto_notes.hpp>
#include <cutrace/sinks/perfetto_packets.hpp>
#include <cutrace/sinks/perfetto_wire.hpp>
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
  /// What the packets of equal launches have in common.
  class entry {
   public:
    std::uint32_t number() const noexcept { return number_; }
    std::uint32_t name() const noexcept { return name_; }  ///< of slice_names

    /// Where the launch goes on: opened by open_message, with its grid and its block.
    struct open_launch {
      char* body;
      char* end;
    };
    /// Everything from the stage to the block. `room`: packet_room.
    CUTRACE_INLINE open_launch put(char* to) const noexcept {
      std::memcpy(to, text_, sizeof(text_));
      return {to + launch_at_, to + size_};
    }

   private:
    friend class kernel_numbers;
    CUTRACE_INLINE bool is_of(const event& e) const noexcept {
      return number_ != 0 && std::memcmp(shape_, &e.kernel, shape_bytes) == 0 && is_same_interned(name_text_, e.name) &&
             mangled_ == e.kernel.mangled_name.data && stage_ == stage_of(e) && capture_ == capture_of(e) &&
             joined_ == e.joined;
    }
    void fill(const event& e, std::uint32_t number, std::uint32_t name) noexcept {
      std::memcpy(shape_, &e.kernel, shape_bytes);
      name_text_ = e.name;
      mangled_ = e.kernel.mangled_name.data;
      stage_ = stage_of(e);
      capture_ = capture_of(e);
      joined_ = e.joined;
      number_ = number;
      name_ = name;
      char* to = put_number<pf::gpu::stage_iid>(text_, static_cast<std::uint64_t>(gpu_stage::kernel));
      to = put_number<pf::gpu::name_iid>(put_number<pf::gpu::kernel_iid>(to, number), name);
      to = open_message<pf::gpu::launch>(to);
      launch_at_ = static_cast<std::uint8_t>(to - text_);
      to = put_size<pf::gpu::launch_grid>(to, e.kernel.grid);
      to = put_size<pf::gpu::launch_workgroup>(to, e.kernel.block);
      size_ = static_cast<std::uint8_t>(to - text_);
    }

    unsigned char shape_[shape_bytes];
    text name_text_;
    const char *mangled_, *stage_, *capture_;
    std::uint32_t number_ = 0;  ///< 0: nothing stands here
    std::uint32_t name_;
    attribution joined_;
    std::uint8_t launch_at_, size_;
    /// Two numbers of the table with their tags and one of a stage, opened launch, grid and block: at most 55.
    char text_[64];
  };

  /// Valid until the next call.
  CUTRACE_INLINE const entry& of(const event& e, slice_names& names) {
    entry& k = kept_[slot_of(e)];
    if (CUTRACE_LIKELY(k.is_of(e))) return k;
    return find(k, e, names);
  }
  bool full() const noexcept { return numbers_.full(); }
  void clear() {
    numbers_.clear();
    for (entry& k : kept_) k.number_ = 0;
  }

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
  static constexpr std::size_t slots = 256;

  static const char* stage_of(const event& e) noexcept { return e.stage_id != 0 ? e.stage_name.data : nullptr; }
  static const char* capture_of(const event& e) noexcept {
    return e.capture_stage_id != 0 ? e.capture_stage_name.data : nullptr;
  }
  static std::size_t slot_of(const event& e) noexcept {
    return kept_slot<slots>(
        (reinterpret_cast<std::uintptr_t>(e.name.data) + 3 * reinterpret_cast<std::uintptr_t>(e.stage_name.data)) ^
        (e.kernel.grid[0] | std::uint64_t{e.kernel.grid[1]} << 32));
  }
  CUTRACE_ONE_COPY const entry& find(entry& k, const event& e, slice_names& names) {
    typename table::key key;
    std::memcpy(key.word, &e.kernel, shape_bytes);
    std::uint64_t* more = key.word + shape_bytes / 8;
    more[0] = reinterpret_cast<std::uintptr_t>(e.name.data);
    more[1] = reinterpret_cast<std::uintptr_t>(e.kernel.mangled_name.data);
    more[2] = reinterpret_cast<std::uintptr_t>(stage_of(e));
    more[3] = reinterpret_cast<std::uintptr_t>(capture_of(e));
    more[4] = static_cast<std::uint64_t>(e.joined) | std::uint64_t{e.name.size} << 8;
    k.fill(e, numbers_.of(key), names.of(e));
    return k;
  }
  template <pf::field Field>
  static char* put_size(char* to, const std::uint32_t (&v)[3]) noexcept {
    char* const body = open_message<Field>(to);
    to = put_number<pf::gpu::z>(put_number<pf::gpu::y>(put_number<pf::gpu::x>(body, v[0]), v[1]), v[2]);
    return close_short_message(body, to);
  }

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
  entry kept_[slots];
};

}  // namespace detail
CUTRACE_END_NAMESPACE
