// SPDX-License-Identifier: Apache-2.0
// Interned data of a Perfetto trace, which says what each id (iid) stands for: names, categories, kernels, streams.
#include <cutrace/sinks/perfetto/fields.hpp>
#include <cutrace/sinks/perfetto/notes.hpp>
#include <cutrace/sinks/perfetto/packets.hpp>

#include "trace/pbf_value.hpp"
#include "trace/perfetto_reader.hpp"
#include "trace/text_front.hpp"

namespace cutrace_reading {

namespace pf = cutrace::detail::pf;
using cutrace::detail::note;
using cutrace::detail::slice_category;

void perfetto_reader::read_kernel_argument(interned_kernel& k, pbf p) {
  std::string_view key, text;
  std::uint64_t value = 0;
  while (p.next()) {
    switch (p.tag()) {
      case pf::gpu::arg_name:
        key = bytes(p);
        break;
      case pf::gpu::arg_string:
        text = bytes(p);
        break;
      case pf::gpu::arg_uint:
        value = number(p);
        break;
      default:
        p.skip();
    }
  }
  const auto narrow = static_cast<std::uint32_t>(value);
  switch (word_key(key)) {
    case word_key("grid_size"):
    case word_key("workgroup_size"):
    case word_key("thread_count"):
      return;  // follow from the launch's own fields
    case word_key("registers_per_thread"):
      k.registers_per_thread = narrow;
      return;
    case word_key("shared_mem_static"):
      k.static_shared_bytes = narrow;
      return;
    case word_key("shared_mem_dynamic"):
      k.dynamic_shared_bytes = narrow;
      return;
    case word_key("local_bytes_per_thread"):
      k.local_bytes_per_thread = narrow;
      return;
    case word_key("cluster_size"):
      k.cluster = narrow;
      return;
    case word_key("priority"): {
      const bool negative = take(text, "-");
      const auto n = static_cast<std::int32_t>(number_of(text));
      k.priority = negative ? -n : n;
      return;
    }
    case word_key("stage"):
      k.stage = to_.texts().intern(text);
      return;
    case word_key("capture_stage"):
      k.capture_stage = to_.texts().intern(text);
      return;
    case word_key("attribution"):
      if (!parse(text, k.joined)) complain("unknown word \"" + std::string(text.substr(0, 64)) + "\"");
      return;
    default:
      complain("unknown argument of a kernel \"" + std::string(key.substr(0, 64)) + "\"");
  }
}

void perfetto_reader::read_kernel(perfetto_sequence& s, pbf p) {
  interned_kernel k;
  std::uint64_t iid = 0;
  while (p.next()) {
    switch (p.tag()) {
      case pf::interned::iid:
        iid = number(p);
        break;
      case pf::interned::text:
        k.mangled = to_.texts().intern(bytes(p));
        break;
      case pf::interned::kernel_demangled:
        k.name = to_.texts().intern(bytes(p));
        break;
      case pf::interned::kernel_args:
        read_kernel_argument(k, message(p));
        break;
      default:
        p.skip();
    }
  }
  if (k.mangled.data == k.name.data) k.mangled = {};
  interned_kernel* const to = s.kernels.add(iid);
  if (to == nullptr) return complain("an interned id beyond all limits");
  *to = k;
}

/// A kind of GPU work ("Kernel" and so on) or a hardware queue ("Stream 7").
void perfetto_reader::read_specification(perfetto_sequence& s, pbf p) {
  std::uint64_t iid = 0;
  std::string_view name;
  while (p.next()) {
    if (p.tag() == pf::interned::iid) {
      iid = number(p);
    } else if (p.tag() == pf::interned::text) {
      name = bytes(p);
    } else {
      p.skip();
    }
  }
  interned_queue q;
  if (take(name, "Stream ")) {
    q.what = interned_queue::meaning::stream;
    q.stream = name == "others" ? ~std::uint64_t{0} - 1 : number_of(name);
  } else {
    for (std::uint8_t i = 1; i < sizeof(cutrace::detail::gpu_stage_names) / sizeof(char*); ++i)
      if (name == cutrace::detail::gpu_stage_names[i]) q.what = static_cast<interned_queue::meaning>(i);
  }
  interned_queue* const to = s.queues.add(iid);
  if (to == nullptr) return complain("an interned id beyond all limits");
  *to = q;
}

void perfetto_reader::read_interned(perfetto_sequence& s, pbf p) {
  while (p.next()) {
    const std::uint32_t table = p.tag();
    if (p.wire_type() != protozero::pbf_wire_type::length_delimited) {
      p.skip();
      continue;
    }
    pbf one = message(p);
    if (table == pf::interned::gpu_specifications) {
      read_specification(s, one);
      continue;
    }
    if (table == pf::interned::compute_kernels) {
      read_kernel(s, one);
      continue;
    }
    std::uint64_t iid = 0, process = 0;
    std::string_view text;
    while (one.next()) {
      if (one.tag() == pf::interned::iid && one.wire_type() == protozero::pbf_wire_type::varint) {
        iid = number(one);
      } else if (one.tag() == pf::interned::text && one.wire_type() == protozero::pbf_wire_type::length_delimited) {
        text = bytes(one);
      } else if (one.tag() == pf::interned::context_pid && one.wire_type() == protozero::pbf_wire_type::varint) {
        process = number(one);
      } else {
        one.skip();
      }
    }
    bool fits = true;
    if (table == pf::interned::event_names) {
      interned_name* const to = s.names.add(iid);
      fits = to != nullptr;
      if (!fits) continue;
      to->text = to_.texts().intern(text);
      static_cast<void>(read_copy_name(text, to->copy) || read_set_name(text, to->memory) || parse(text, to->sync));
    } else if (table == pf::interned::event_categories) {
      slice_category* const to = s.categories.add(iid);
      fits = to != nullptr;
      for (std::uint32_t i = 1; fits && i < cutrace::detail::slice_category_count; ++i)
        if (text == cutrace::detail::slice_category_names[i]) *to = static_cast<slice_category>(i);
    } else if (table == pf::interned::annotation_names || table == pf::interned::compute_arg_names) {
      note* const to = table == pf::interned::annotation_names ? s.annotations.add(iid) : s.arguments.add(iid);
      fits = to != nullptr;
      for (std::uint32_t i = 1; fits && i < cutrace::detail::note_count; ++i)
        if (text == cutrace::detail::note_names[i]) *to = static_cast<note>(i);
      if (fits && *to == note::none) complain("unknown note \"" + std::string(text.substr(0, 64)) + "\"");
    } else if (table == pf::interned::string_values) {
      interned_text* const to = s.texts.add(iid);
      fits = to != nullptr;
      if (fits) to->text = text;
    } else if (table == pf::interned::graphics_contexts) {
      if (s.context_processes.size() < interned_table<int>::limit)
        s.context_processes[iid] = static_cast<std::uint32_t>(process);
    } else {
      complain("unknown kind of interned data");
    }
    if (!fits) complain("an interned id beyond all limits");
  }
}

}  // namespace cutrace_reading
