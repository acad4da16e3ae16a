// SPDX-License-Identifier: Apache-2.0
// Arguments of a call out of its record: where they lie is known from the table of signatures, as for hooked calls.
// What stands behind pointers was copied by the BPF program, by a plan for each function, since nothing of another
// process can be read later.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "call_record.h"
#include "signatures.hpp"

namespace cutrace_ebpf {

namespace preload = cutrace::preload;
namespace cupti = cutrace::cupti;

class CUTRACE_LOCAL call_words {
 public:
  static constexpr std::size_t limit = cupti::word_limit;

  /// `exported`: the library exports `symbol`; else a name that cuGetProcAddress was asked for.
  call_words(const char* symbol, bool exported) : shape_(preload::call_shape::of(symbol, exported)) {
    // A probe does not see vector registers: a call that may use them is recorded as raw words, like an unknown one.
    if (shape_.floating && shape_.known != nullptr) {
      shape_ = preload::call_shape::of("", true);
      raw_name_ = symbol;
    }
    make_plan(symbol);
  }

  const preload::call_shape& shape() const noexcept { return shape_; }
  /// What the kernel's side has to copy.
  const cutrace_ebpf_plan& plan() const noexcept { return plan_; }

  /// Values of the recorded arguments; `more` is null for a short record. Returns how many. What was not copied
  /// is 0.
  std::uint32_t read(const cutrace_ebpf_call& c, const cutrace_ebpf_long_call* more,
                     std::array<std::uint64_t, limit>& out) const noexcept {
    if (shape_.known == nullptr) {
      std::memcpy(out.data(), c.words, sizeof(c.words));
      return CUTRACE_EBPF_REGISTERS;
    }
    alignas(16) unsigned char frame[FRAME_CALLERS_STACK + 8 * preload::stack_words_of_unknown] = {};
    std::memcpy(frame + FRAME_WORDS, c.words, sizeof(c.words));
    if (more != nullptr) std::memcpy(frame + FRAME_CALLERS_STACK, more->stack, sizeof(more->stack));
    for (std::uint32_t i = 0; i < shape_.word_count; ++i) {
      const cupti::function_parameter& p = shape_.parameters[i];
      if (p.how == cupti::read_how::value)
        out[i] = cupti::word_reader::load_value(frame + p.offset, p);
      else if (p.how == cupti::read_how::product)
        out[i] = product_of(more, frame);
      else
        out[i] = behind(more, p);
    }
    return shape_.word_count;
  }

  /// Writes name and parameters of the function number `index` to the trace.
  void name(cutrace::event_writer& w, std::uint32_t index, const char* symbol) const noexcept {
    preload::name_function(w, index, raw_name_.empty() ? symbol : raw_name_.c_str(), shape_);
  }

 private:
  static constexpr unsigned no_word = 0xff;

  /// Number of the word at that offset of the frame, registers first, then the caller's stack; `no_word`: not recorded.
  static unsigned word_at(unsigned offset) noexcept {
    if (offset >= FRAME_WORDS && offset < FRAME_WORDS + 8 * CUTRACE_EBPF_REGISTERS) return (offset - FRAME_WORDS) / 8;
    if (offset >= FRAME_CALLERS_STACK && offset < FRAME_CALLERS_STACK + 8 * CUTRACE_EBPF_STACK_WORDS)
      return CUTRACE_EBPF_REGISTERS + (offset - FRAME_CALLERS_STACK) / 8;
    return no_word;
  }

  struct range {
    unsigned word, begin, end;
  };

  void make_plan(std::string_view symbol) noexcept {
    plan_.gives_function = symbol.substr(0, 16) == "cuGetProcAddress";
    if (shape_.known == nullptr) return;
    plan_.stack_words = static_cast<__u8>(shape_.stack_words < CUTRACE_EBPF_STACK_WORDS ? shape_.stack_words
                                                                                        : CUTRACE_EBPF_STACK_WORDS);
    std::array<range, limit + 1> wanted{};
    std::size_t count = 0;
    const auto want = [&](unsigned offset, unsigned begin, unsigned end) {
      const unsigned word = word_at(offset);
      if (word == no_word) return;
      for (std::size_t i = 0; i < count; ++i) {
        if (wanted[i].word != word) continue;
        wanted[i].begin = begin < wanted[i].begin ? begin : wanted[i].begin;
        wanted[i].end = end > wanted[i].end ? end : wanted[i].end;
        return;
      }
      wanted[count++] = {word, begin, end};
    };
    for (std::uint32_t i = 0; i < shape_.word_count; ++i) {
      const cupti::function_parameter& p = shape_.parameters[i];
      if (p.how == cupti::read_how::output || p.how == cupti::read_how::nested)
        want(p.offset, p.inner, p.inner + p.size);
      if (p.how != cupti::read_how::product || shape_.product.pointer == cupti::no_offset) continue;
      for (unsigned k = 0; k < shape_.product.count; ++k)
        want(shape_.product.pointer, shape_.product.factor[k], shape_.product.factor[k] + shape_.product.size[k]);
    }
    // The large block takes the first range that does not fit into the small one, or, where all do, the first of all.
    for (const bool large : {true, false}) {
      for (std::size_t i = 0; i < count; ++i) {
        const range& r = wanted[i];
        const unsigned bytes = r.end - r.begin;
        if (large ? bytes <= CUTRACE_EBPF_SECOND_BLOCK : plan_.block_bytes[0] != 0 && plan_.block_word[0] == r.word)
          continue;
        if (plan_.block_bytes[0] == 0 && bytes <= CUTRACE_EBPF_FIRST_BLOCK)
          set_block(0, r);
        else if (plan_.block_bytes[1] == 0 && bytes <= CUTRACE_EBPF_SECOND_BLOCK)
          set_block(1, r);
      }
    }
  }
  void set_block(unsigned i, const range& r) noexcept {
    plan_.block_word[i] = static_cast<__u8>(r.word);
    plan_.block_begin[i] = static_cast<__u16>(r.begin);
    plan_.block_bytes[i] = static_cast<__u8>(r.end - r.begin);
  }

  /// `bytes` at `inner` of what the pointer in `word` leads to; null: they were not copied.
  const unsigned char* copied(const cutrace_ebpf_long_call* more, unsigned word, unsigned inner,
                              unsigned bytes) const noexcept {
    if (more == nullptr || word == no_word) return nullptr;
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned begin = plan_.block_begin[i], end = begin + more->block_bytes[i];
      if (more->block_bytes[i] == 0 || plan_.block_word[i] != word || inner < begin || inner + bytes > end) continue;
      return (i == 0 ? more->first : more->second) + (inner - begin);
    }
    return nullptr;
  }

  std::uint64_t behind(const cutrace_ebpf_long_call* more, const cupti::function_parameter& p) const noexcept {
    const unsigned char* at = copied(more, word_at(p.offset), p.inner, p.size);
    return at != nullptr ? cupti::word_reader::load_value(at, p) : 0;
  }

  std::uint64_t product_of(const cutrace_ebpf_long_call* more, const unsigned char* frame) const noexcept {
    const cupti::function_product& product = shape_.product;
    if (product.pointer == cupti::no_offset) return cupti::word_reader::load_product(frame, product, true);
    for (const std::uint16_t at : product.null_at)
      if (at != cupti::no_offset) return 0;
    std::uint64_t v = product.scale;
    for (unsigned i = 0; i < product.count; ++i) {
      const unsigned char* at = copied(more, word_at(product.pointer), product.factor[i], product.size[i]);
      if (at == nullptr) return 0;
      v *= cupti::word_reader::load_integer(at, product.size[i], false);
    }
    return v;
  }

  preload::call_shape shape_;
  cutrace_ebpf_plan plan_ = {};
  std::string raw_name_;
};

}  // namespace cutrace_ebpf
