// SPDX-License-Identifier: Apache-2.0
// CUDA calls by CUPTI's callback id: names, what they do, and the values of their arguments. The tables are made from
// the CUDA headers when the program is built (codegen/), nothing here is a list of functions.
#pragma once

#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/cuda_functions.hpp>  // generated: namespace tables
#include <cutrace/cupti/functions_entry.hpp>
#include <cutrace/cupti/word_reader.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {

/// Entry of a driver function, null for an id that these headers do not know. Any thread.
CUTRACE_LOCAL inline const function_entry* find_driver(std::uint32_t cbid) noexcept {
  if (cbid >= sizeof(tables::driver) / sizeof(tables::driver[0])) return nullptr;
  return tables::driver[cbid].name != nullptr ? &tables::driver[cbid] : nullptr;
}

/// Entry of a runtime function, null for an id that these headers do not know. Any thread.
CUTRACE_LOCAL inline const function_entry* find_runtime(std::uint32_t cbid) noexcept {
  if (cbid >= sizeof(tables::runtime) / sizeof(tables::runtime[0])) return nullptr;
  return tables::runtime[cbid].name != nullptr ? &tables::runtime[cbid] : nullptr;
}

/// Hands the names of all result codes of these headers to the writer, so that sinks can print them.
CUTRACE_LOCAL inline void name_results(event_writer& w) noexcept {
  for (const result_entry* r = tables::driver_results; r->name != nullptr; ++r) w.name_result(false, r->code, r->name);
  for (const result_entry* r = tables::runtime_results; r->name != nullptr; ++r) w.name_result(true, r->code, r->name);
}

/// Parameters of `f`: the first `f.words` are stored, in this order.
CUTRACE_LOCAL inline const function_parameter* parameters_of(const function_entry& f) noexcept {
  return &tables::parameters[f.first];
}

/// Words of a call whose parameters are unknown: enough for the usual handles and sizes, and few enough to stay within
/// the frame of the driver's own function, where CUPTI keeps the structure.
constexpr std::uint32_t raw_word_count = 4;

/// Values of the stored arguments, for CUPTI's EXIT callback; `params` is CUpti_CallbackData::functionParams, `out` has
/// room for word_limit words. Follows the caller's pointers (outputs, launch and copy descriptions; at most 8 bytes
/// each) only where the call succeeded, because only then are they known to be good; otherwise such words are 0.
/// Returns the number of words. Any thread.
CUTRACE_LOCAL inline std::uint32_t read_words(const function_entry& f, const void* params, bool succeeded,
                                              std::uint64_t* out) noexcept {
  const auto* base = static_cast<const unsigned char*>(params);
  if (base == nullptr) return 0;
  if (!f.known) {
    std::memcpy(out, base, raw_word_count * sizeof(*out));
    return raw_word_count;
  }
  word_reader::load_words(parameters_of(f), f.words, tables::products, base, succeeded, out);
  return f.words;
}

/// As read_words, for an id that the tables do not hold: the first four words of the structure as they are.
CUTRACE_LOCAL inline std::uint32_t read_raw_words(const void* params, std::uint64_t* out) noexcept {
  if (params == nullptr) return 0;
  std::memcpy(out, params, raw_word_count * sizeof(*out));
  return raw_word_count;
}

/// What event_writer::name_function takes. The result points into `buffer` (room for word_limit parameters).
CUTRACE_LOCAL inline function_info describe(const function_entry& f, function_info::parameter* buffer) noexcept {
  return describe(f, parameters_of(f), buffer);
}

/// Describes a callback id to the trace. A function that the tables do not hold is described as making no GPU work:
/// else the trace would promise records that may never come.
CUTRACE_LOCAL inline void name_function(event_writer& w, std::uint32_t cbid, const char* symbol,
                                        const function_entry* known) noexcept {
  function_info::parameter parameters[word_limit];
  function_info info{};
  info.name = symbol;
  info.bytes_parameter = -1;
  if (known != nullptr) info = describe(*known, parameters);
  w.name_function(cbid, false, info);
}

/// As name_function, for a function of the runtime API, of which only the name is shown.
CUTRACE_LOCAL inline void name_runtime_function(event_writer& w, std::uint32_t cbid, const char* symbol,
                                                const function_entry* known) noexcept {
  function_info info{};
  info.name = known != nullptr ? known->name : symbol;
  info.bytes_parameter = -1;
  w.name_function(cbid, true, info);
}

}  // namespace cupti
CUTRACE_END_NAMESPACE
