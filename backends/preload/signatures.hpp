// SPDX-License-Identifier: Apache-2.0
// Where the arguments of a hooked function lie in the trampoline's frame, by the table that was made from CUDA's
// headers when this library was built. A function that the table does not hold is passed on all the same; its registers
// are reported as raw words.
#pragma once

#include <cstdint>
#include <cstring>
#include <cutrace/cupti/word_reader.hpp>

#include "frame.hpp"
#if defined(CUTRACE_WITH_SIGNATURES)
#include <cutrace/cupti/cuda_signatures.hpp>
#else
#include "signature_entry.hpp"
#endif

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

/// How many of the caller's stack words are passed on to a function of unknown signature: cuLaunchKernel takes 5, a
/// structure of 64 bytes by value 8, the longest function of CUDA 13 eight.
constexpr std::uint32_t stack_words_of_unknown = 16;

struct call_shape {
  const cupti::function_entry* known = nullptr;  ///< null: raw words
  std::uint32_t stack_words = 0;
  bool plain = false;     ///< all words are integers of the frame, see `plain_words`
  bool floating = false;  ///< vector registers may carry arguments
  std::uint8_t word_count = 0;
  /// An integer of the frame: `mask` cuts it to its size, `sign` is the sign bit to extend, 0 for unsigned.
  struct plain_word {
    std::uint64_t mask = 0, sign = 0;
    std::uint16_t offset = 0;
  };
  plain_word plain_words[cupti::word_limit] = {};
  /// As in the table, with offsets that count from the frame.
  cupti::function_parameter parameters[cupti::word_limit] = {};
  cupti::function_product product = {};

  /// For an exported symbol, or a name that cuGetProcAddress was asked for: such a name may stand for several versions,
  /// and is known where all versions take the same arguments.
  static call_shape of(const char* symbol, bool exported) noexcept {
    call_shape shape;
    shape.stack_words = stack_words_of_unknown;
    shape.floating = shape.plain = true;
    shape.word_count = frame_places::registers;
    for (unsigned i = 0; i < frame_places::registers; ++i)
      shape.plain_words[i] = {~std::uint64_t{0}, 0, frame_places::register_of(i)};
#if defined(CUTRACE_WITH_SIGNATURES)
    if (const signature* s = exported ? find_symbol(symbol) : find_name(symbol)) shape.place(*s);
#else
    static_cast<void>(symbol), static_cast<void>(exported);
#endif
    return shape;
  }

  /// Values of the recorded arguments; `out` has room for word_limit words. Returns how many.
  std::uint32_t read(const call_frame& f, bool succeeded, std::uint64_t* out) const noexcept {
    const auto* base = reinterpret_cast<const unsigned char*>(&f);
    if (CUTRACE_LIKELY(plain)) {  // without a branch for each
      for (std::uint32_t i = 0; i < word_count; ++i) {
        const plain_word& w = plain_words[i];
        std::uint64_t v;
        std::memcpy(&v, base + w.offset, sizeof(v));
        out[i] = ((v & w.mask) ^ w.sign) - w.sign;
      }
    } else {
      cupti::word_reader::load_words(parameters, word_count, &product, base, succeeded, out);
    }
    return word_count;
  }

 private:
#if defined(CUTRACE_WITH_SIGNATURES)
  static constexpr std::size_t table_size =
      sizeof(cupti::signatures::functions) / sizeof(cupti::signatures::functions[0]);

  static const signature* find_symbol(const char* symbol) noexcept {
    const signature* all = cupti::signatures::functions;
    std::size_t low = 0, high = table_size;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      const int order = std::strcmp(all[middle].function.symbol, symbol);
      if (order == 0) return &all[middle];
      (order < 0 ? low : high) = order < 0 ? middle + 1 : middle;
    }
    return nullptr;
  }

  static bool alike(const signature& a, const signature& b) noexcept {
    if (a.count != b.count || a.function.words != b.function.words || a.function.known != b.function.known)
      return false;
    for (unsigned i = 0; i < a.count; ++i) {
      const argument_place& x = cupti::signatures::places[a.first + i];
      const argument_place& y = cupti::signatures::places[b.first + i];
      if (x.bytes != y.bytes || x.floating != y.floating) return false;
    }
    for (unsigned i = 0; i < a.function.words; ++i) {
      const cupti::function_parameter& x = cupti::signatures::parameters[a.function.first + i];
      const cupti::function_parameter& y = cupti::signatures::parameters[b.function.first + i];
      if (x.how != y.how || x.size != y.size || x.offset != y.offset || std::strcmp(x.name, y.name) != 0) return false;
    }
    return true;
  }

  static const signature* find_name(const char* name) noexcept {
    const signature* found = nullptr;
    for (const signature& s : cupti::signatures::functions) {
      if (std::strcmp(s.function.name, name) != 0) continue;
      if (found != nullptr && !alike(*found, s)) return nullptr;
      if (found == nullptr) found = &s;
    }
    return found;
  }

  void place(const signature& s) noexcept {
    if (!s.placed) return;
    constexpr unsigned most = 24;
    std::uint16_t at[most];
    frame_places walk;
    if (s.count > most) return;
    const argument_place* places = &cupti::signatures::places[s.first];
    for (unsigned i = 0; i < s.count; ++i) at[i] = walk.next(places[i].bytes, places[i].floating);
    const auto moved = [&](std::uint16_t offset) noexcept {
      unsigned i = s.count;
      while (i > 0 && places[i - 1].offset > offset) --i;
      return i == 0 ? offset : static_cast<std::uint16_t>(at[i - 1] + (offset - places[i - 1].offset));
    };
    for (unsigned i = 0; i < s.function.words; ++i) {
      parameters[i] = cupti::signatures::parameters[s.function.first + i];
      if (parameters[i].how != cupti::read_how::product) {
        parameters[i].offset = moved(parameters[i].offset);
        continue;
      }
      product = cupti::signatures::products[parameters[i].offset];
      parameters[i].offset = 0;
      if (product.pointer != cupti::no_offset) {
        product.pointer = moved(product.pointer);
      } else {
        for (unsigned k = 0; k < product.count; ++k) product.factor[k] = moved(product.factor[k]);
        for (std::uint16_t& n : product.null_at) n = n != cupti::no_offset ? moved(n) : n;
      }
    }
    known = &s.function;
    stack_words = (walk.stacked + 1) & ~1u;
    floating = walk.vectors != 0;
    plain = true;
    word_count = s.function.words;
    for (unsigned i = 0; i < word_count; ++i) {
      const cupti::function_parameter& p = parameters[i];
      plain = plain && p.how == cupti::read_how::value && p.kind != argument_kind::floating;
      const std::uint64_t top = std::uint64_t{1} << (8u * p.size - 1);
      plain_words[i] = {top | (top - 1), p.kind == argument_kind::integer ? top : 0, p.offset};
    }
  }
#endif
};

/// Result of a call that never returned: its frame was left by a longjmp, an exception or the end of its thread. Not
/// one of CUDA's.
constexpr std::int32_t did_not_return = INT32_MIN;

/// Names all results of these headers, and did_not_return, to the writer, so that sinks can print them.
inline void name_results(event_writer& w) noexcept {
#if defined(CUTRACE_WITH_SIGNATURES)
  for (const cupti::result_entry* r = cupti::signatures::results; r->name != nullptr; ++r)
    w.name_result(false, r->code, r->name);
#else
  w.name_result(false, 0, "CUDA_SUCCESS");
#endif
  w.name_result(false, did_not_return, "did not return");
}

/// Describes a hook's number to the trace.
inline void name_function(event_writer& w, std::uint32_t index, const char* symbol, const call_shape& shape) noexcept {
  function_info::parameter buffer[cupti::word_limit];
  function_info info{};
  info.bytes_parameter = -1;
  if (shape.known != nullptr)
    info = cupti::describe(*shape.known, shape.parameters, buffer);
  else
    info.name = symbol;
  w.name_function(index, false, info);
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
