// SPDX-License-Identifier: Apache-2.0
// The shape of the generated function tables: what is known about one CUDA call, and where in CUPTI's parameter
// structure each of its arguments lies. Plain data, no CUDA header needed. functions.hpp reads with it.
#pragma once

#include <cstdint>
#include <cstring>
#include <cutrace/event.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {

/// Arguments stored of one call, see api_call::words.
constexpr std::uint32_t word_limit = 10;
/// Marks an offset or index that is not there.
constexpr std::uint16_t no_offset = 0xffff;

/// What a call does, as far as its name says.
enum class function_work : std::uint8_t { none, launch, graph, copy, set, allocate, free, synchronize, event };

/// Where the value of an argument is found.
enum class read_how : std::uint8_t {
  value,    ///< in the parameter structure, at `offset`
  output,   ///< behind the pointer at `offset`: written by the call, valid at EXIT when it succeeded
  nested,   ///< behind the pointer at `offset`, at `inner` of what it points to; read when the call succeeded
  product,  ///< product of several values, see function_product; `offset` is its index
};

struct function_parameter {
  const char* name;    ///< as in the header; "bytes" for products
  argument_kind kind;  ///< of the value, for outputs too
  read_how how;
  std::uint8_t size;     ///< bytes of the value, 1 to 8; 0 where it is not stored
  std::uint16_t offset;  ///< bytes
  std::uint16_t inner;   ///< bytes
};

/// Amount of bytes that no single argument holds: width * height * depth * scale.
struct function_product {
  std::uint16_t pointer;     ///< offset of the pointer that the factors lie behind, or no_offset: in the structure
  std::uint16_t factor[3];   ///< offsets
  std::uint8_t size[3];      ///< bytes of each factor
  std::uint8_t count;        ///< factors
  std::uint8_t scale;        ///< bytes of an element
  std::uint16_t null_at[2];  ///< offsets of pointers that must be null, or no_offset: with an array the unit is unknown
};

struct function_entry {
  const char* name;         ///< as a program writes it: without version and per-thread-stream suffix; null: no such id
  const char* symbol;       ///< as CUPTI names it, e.g. "cuMemAlloc_v2", "cudaMalloc_v3020"
  std::uint16_t first;      ///< index of the first parameter in the table of parameters
  std::uint8_t parameters;  ///< all of them: first those whose value is stored, in the header's order, then the others
  std::uint8_t words;       ///< values stored, at most word_limit
  std::int8_t bytes_word;   ///< index of the word that is the number of bytes copied, set or allocated, -1 none
  function_work work;
  copy_direction direction;
  bool known;           ///< parameters are known, or it is known that there are none
  bool query;           ///< asks only: cheap, frequent, rarely interesting
  bool makes_gpu_work;  ///< launch, graph, copy or set: GPU records may carry its correlation id
};

/// Whether the default stream of this function is that of the calling thread.
inline bool uses_thread_stream(const function_entry& f) noexcept {
  const std::size_t n = f.symbol != nullptr ? std::strlen(f.symbol) : 0;
  return n > 5 && (std::strcmp(f.symbol + n - 5, "_ptsz") == 0 || std::strcmp(f.symbol + n - 5, "_ptds") == 0);
}

/// A result code by name. Tables of them end with a null name.
struct result_entry {
  std::int32_t code;
  const char* name;  ///< enumerator of CUresult or cudaError_t
};

}  // namespace cupti
CUTRACE_END_NAMESPACE
