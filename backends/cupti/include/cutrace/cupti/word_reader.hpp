// SPDX-License-Identifier: Apache-2.0
// Values of a call's arguments by the rows of a function table, wherever the arguments lie: in CUPTI's structure of
// them, or in the registers and stack words of a hooked call.
#pragma once

#include <cstdint>
#include <cstring>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/functions_entry.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {

namespace word_reader {

/// Little-endian integer of `size` bytes, sign-extended where `is_signed`.
CUTRACE_LOCAL inline std::uint64_t load_integer(const unsigned char* at, std::uint8_t size, bool is_signed) noexcept {
  std::uint64_t v = 0;
  switch (size) {  // constant sizes: each case is one load
    case 8:
      std::memcpy(&v, at, 8);
      return v;
    case 4: {
      std::uint32_t v32;
      std::memcpy(&v32, at, 4);
      return is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(v32))) : v32;
    }
    case 2: {
      std::uint16_t v16;
      std::memcpy(&v16, at, 2);
      return is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int16_t>(v16))) : v16;
    }
    case 1:
      return is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<signed char>(*at))) : *at;
    default:
      if (size < 8) std::memcpy(&v, at, size);
      return v;
  }
}

CUTRACE_LOCAL inline std::uint64_t load_value(const unsigned char* at, const function_parameter& p) noexcept {
  if (p.kind != argument_kind::floating) return load_integer(at, p.size, p.kind == argument_kind::integer);
  double d = 0;
  if (p.size == sizeof(float)) {
    float f;
    std::memcpy(&f, at, sizeof(f));
    d = static_cast<double>(f);
  } else {
    std::memcpy(&d, at, sizeof(d));
  }
  std::uint64_t bits;
  std::memcpy(&bits, &d, sizeof(bits));
  return bits;
}

CUTRACE_LOCAL inline const unsigned char* load_pointer(const unsigned char* at) noexcept {
  const unsigned char* p;
  std::memcpy(&p, at, sizeof(p));
  return p;
}

/// Product of the factors, in bytes. 0 where it is not known: behind a null pointer, after a failed call, or where a
/// CUDA array takes part (function_product::null_at).
CUTRACE_LOCAL inline std::uint64_t load_product(const unsigned char* params, const function_product& p,
                                                bool succeeded) noexcept {
  const unsigned char* base = params;
  if (p.pointer != no_offset) {
    if (!succeeded) return 0;
    base = load_pointer(params + p.pointer);
    if (base == nullptr) return 0;
  }
  for (const std::uint16_t at : p.null_at) {
    if (at != no_offset && load_pointer(base + at) != nullptr) return 0;
  }
  std::uint64_t v = p.scale;
  for (unsigned i = 0; i < p.count; ++i) v *= load_integer(base + p.factor[i], p.size[i], false);
  return v;
}

/// `count` values of a call's arguments, which begin at `base`. Pointers of the caller are followed only where the call
/// succeeded; words behind them are 0 otherwise.
CUTRACE_LOCAL inline void load_words(const function_parameter* p, std::uint32_t count, const function_product* products,
                                     const unsigned char* base, bool succeeded, std::uint64_t* out) noexcept {
  for (std::uint32_t i = 0; i < count; ++i, ++p) {
    if (p->how == read_how::value) {
      out[i] = load_value(base + p->offset, *p);
    } else if (p->how == read_how::product) {
      out[i] = load_product(base, products[p->offset], succeeded);
    } else {
      const unsigned char* at = succeeded ? load_pointer(base + p->offset) : nullptr;
      out[i] = at != nullptr ? load_value(at + p->inner, *p) : 0;
    }
  }
}

}  // namespace word_reader

/// What event_writer::name_function takes, of a function whose first parameter is `p`. The result points into `buffer`
/// (room for word_limit parameters).
CUTRACE_LOCAL inline function_info describe(const function_entry& f, const function_parameter* p,
                                            function_info::parameter* buffer) noexcept {
  const std::uint32_t n = f.known ? f.words : 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    buffer[i].name = p[i].name;
    buffer[i].kind = p[i].how == read_how::output ? argument_kind::output : p[i].kind;
  }
  function_info info{};
  info.name = f.name;
  info.parameters = buffer;
  info.parameter_count = n;
  info.direction = f.direction;
  info.bytes_parameter = f.bytes_word;
  info.makes_gpu_work = f.makes_gpu_work;
  info.per_thread_stream = uses_thread_stream(f);
  return info;
}

}  // namespace cupti
CUTRACE_END_NAMESPACE
