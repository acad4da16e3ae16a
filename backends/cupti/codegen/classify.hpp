// SPDX-License-Identifier: Apache-2.0
// Applies the rules to one function: which words (argument values of up to 8 bytes) of its call are stored, in the
// CUDA header's order, and how many bytes it moves.
#pragma once

#include <string>

#include "rules.hpp"

namespace codegen {

inline std::uint16_t narrow(std::size_t v) { return static_cast<std::uint16_t>(v); }

inline void add_factor(function_product& p, member m, std::size_t base) {
  p.factor[p.count] = narrow(base + m.offset);
  p.size[p.count] = static_cast<std::uint8_t>(m.size);
  ++p.count;
}

inline function_product empty_product() {
  function_product p{};
  p.pointer = no_offset;
  p.scale = 1;
  p.null_at[0] = p.null_at[1] = no_offset;
  return p;
}

inline const parameter_facts* find(const function_facts& f, std::initializer_list<std::string_view> names) {
  for (std::size_t i = 0; i < f.count; ++i) {
    for (std::string_view n : names) {
      if (n == f.parameters[i].name && f.parameters[i].t.integral) return &f.parameters[i];
    }
  }
  return nullptr;
}

inline member place_of(const parameter_facts& p) { return {p.offset, p.t.size}; }

/// Bytes of an element, which cuMemsetD8, D16, D32 and D2D8, ... say in their names.
inline std::uint8_t element_bytes(const std::string& s) {
  if (contains(s, "D32")) return 4;
  if (contains(s, "D16")) return 2;
  return contains(s, "D8") ? 1 : 0;
}

/// Amount of bytes as a product, where no single argument holds it. False where there is none.
inline bool product_of(const function_facts& f, const std::string& s, function_work work, function_product& out) {
  out = empty_product();
  const bool moves = work == function_work::copy || work == function_work::set;
  if (!moves && work != function_work::allocate) return false;
  if (work == function_work::allocate && contains(s, "Array")) return false;  // extents of arrays count elements
  const std::uint8_t element = work == function_work::set ? element_bytes(s) : std::uint8_t{0};
  if (element != 0) {
    const parameter_facts* n = find(f, {"N"});
    const parameter_facts* width = n != nullptr ? n : find(f, {"Width"});
    const parameter_facts* height = n != nullptr ? nullptr : find(f, {"Height"});
    if (width == nullptr || (n == nullptr && height == nullptr)) return false;
    out.scale = element;
    add_factor(out, place_of(*width), 0);
    if (height != nullptr) add_factor(out, place_of(*height), 0);
    return true;
  }
  const parameter_facts* width = find(f, {"WidthInBytes", "width"});
  const parameter_facts* height = find(f, {"Height", "height"});
  if (width != nullptr && height != nullptr) {
    add_factor(out, place_of(*width), 0);
    add_factor(out, place_of(*height), 0);
    return true;
  }
  for (std::size_t i = 0; i < f.count; ++i) {
    const parameter_facts& p = f.parameters[i];
    const struct_facts& in = p.t.inner;
    const bool behind = p.t.pointer;
    const std::size_t base = behind ? 0 : p.offset;
    out.pointer = behind ? narrow(p.offset) : no_offset;
    if (in.width_bytes.size != 0 && in.height.size != 0) {
      add_factor(out, in.width_bytes, base);
      add_factor(out, in.height, base);
      if (in.depth.size != 0) add_factor(out, in.depth, base);
      return true;
    }
    // An extent by value, or in a description that also says whether arrays take part: then it counts elements.
    const bool guarded = in.source_array.size != 0 && in.destination_array.size != 0;
    if (in.extent_depth.size != 0 && in.extent_width.size != 0 && (!behind || guarded)) {
      add_factor(out, in.extent_width, base);
      add_factor(out, in.extent_height, base);
      add_factor(out, in.extent_depth, base);
      if (guarded) {
        out.null_at[0] = narrow(base + in.source_array.offset);
        out.null_at[1] = narrow(base + in.destination_array.offset);
      }
      return true;
    }
  }
  out = empty_product();
  return false;
}

inline function_parameter word(const parameter_facts& p, argument_kind kind, read_how how, std::size_t size) {
  return {p.name, kind, how, static_cast<std::uint8_t>(size), narrow(p.offset), 0};
}

/// Which words of a launch are kept. `identity`: function and stream, since grid, block and shared memory come with the
/// GPU's record. `all`: these, too, where there is no such record.
enum class launch_words { identity, all };

/// Grid, block and shared memory of a launch description.
inline void add_launch_shape(const parameter_facts& p, function_row& row) {
  constexpr const char* names[7] = {"gridDimX",  "gridDimY",  "gridDimZ",      "blockDimX",
                                    "blockDimY", "blockDimZ", "sharedMemBytes"};
  for (int i = 0; i < 7; ++i) {
    const member m = p.t.inner.launch_shape[i];
    if (m.size == 4)
      row.stored.push_back(
          {names[i], argument_kind::unsigned_integer, read_how::nested, 4, narrow(p.offset), narrow(m.offset)});
  }
}

/// Words for one parameter: itself, what it points to, or members of what it points to.
inline void add_words(const parameter_facts& p, const std::string& s, launch_words wanted, function_row& row) {
  const argument_kind kind = kind_of(p, s);
  const bool launches = row.work == function_work::launch;
  const member in_stream = launches && p.t.pointer ? p.t.inner.stream : member{};
  const member in_function = launches && p.t.pointer ? p.t.inner.function : member{};
  if (in_function.size == 8 || in_stream.size == 8) {
    if (in_function.size == 8) {
      row.stored.push_back(
          {"function", argument_kind::handle, read_how::nested, 8, narrow(p.offset), narrow(in_function.offset)});
    }
    if (wanted == launch_words::all) add_launch_shape(p, row);
    if (in_stream.size == 8) {
      row.stored.push_back(
          {"stream", argument_kind::stream, read_how::nested, 8, narrow(p.offset), narrow(in_stream.offset)});
    }
  } else if (is_output(p, row.work)) {
    row.stored.push_back(word(p, pointee_kind_of(p, s), read_how::output, p.t.pointee_size));
  } else if (p.t.size <= 8 && (!launches || launch_keeps(p, kind) || (wanted == launch_words::all && p.t.integral))) {
    row.stored.push_back(word(p, kind, read_how::value, p.t.size));
  } else {
    row.other.push_back(word(p, kind, read_how::value, 0));
  }
}

/// Drops words from the end until the rest fits, together with the product if there is one.
inline void limit_words(function_row& row, bool with_product) {
  const std::size_t room = word_limit - (with_product ? 1 : 0);
  while (row.stored.size() > room) {
    function_parameter p = row.stored.back();
    p.size = 0;
    row.other.insert(row.other.begin(), p);
    row.stored.pop_back();
  }
}

inline function_row classify(const function_facts& f, launch_words wanted = launch_words::identity) {
  const std::string s = stem(f.symbol);
  function_row row;
  row.name = plain_name(f.symbol);
  row.symbol = f.symbol;
  row.runtime = f.runtime;
  row.cbid = f.cbid;
  row.known = f.known;
  row.work = work_of(s);
  row.query = row.work == function_work::none && query_of(s, starts_with(f.symbol, "__"));
  row.direction = direction_of(s, row.work);
  row.makes_gpu_work = row.work == function_work::launch || row.work == function_work::graph ||
                       row.work == function_work::copy || row.work == function_work::set;
  for (std::size_t i = 0; i < f.count; ++i) add_words(f.parameters[i], s, wanted, row);

  function_product product;
  const bool has_product = product_of(f, s, row.work, product);
  limit_words(row, has_product);
  const bool allocates_bytes = row.work == function_work::allocate && !contains(s, "Array");
  const bool has_amount = row.work == function_work::copy || row.work == function_work::set || allocates_bytes;
  if (has_product) {
    row.products.push_back(product);
    row.bytes_word = static_cast<int>(row.stored.size());
    row.stored.push_back({"bytes", argument_kind::bytes, read_how::product, 8, 0, 0});
  } else if (has_amount) {
    for (std::size_t i = 0; i < row.stored.size() && row.bytes_word < 0; ++i) {
      const function_parameter& w = row.stored[i];
      if (w.kind == argument_kind::bytes && w.how == read_how::value && names_amount(w.name)) {
        row.bytes_word = static_cast<int>(i);
      }
    }
  }
  return row;
}

}  // namespace codegen
