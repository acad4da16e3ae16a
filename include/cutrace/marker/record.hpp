// SPDX-License-Identifier: Apache-2.0
// The record, the hot path's unit: a thread of the program writes it into its chunk (collect/chunk_pool.hpp), the
// collector reads it. Part of the binary contract (CUTRACE_ABI_VERSION) of all objects of a process that hold markers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/request.hpp>
#include <type_traits>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

enum class record_type : std::uint8_t {
  pad = 0,         ///< unused rest of a chunk
  stage = 1,       ///< a stage that ended (scope, span or adopted part)
  stage_open = 2,  ///< identity of a running stage, written before the first record that refers to it
  mark = 3,        ///< instant
  api = 4,         ///< driver or runtime call that returned
  gpu = 5,         ///< GPU work reported by a backend that writes records (simulated GPU)
  memory = 6,      ///< device allocation or free reported by a backend
  graph = 7,       ///< a graph_change (backend.hpp): id = node, parent = stage, a = from, count = action
  text = 16,       ///< continuation, as all below: up to 48 bytes of text that belong to the next record with a head
  requests = 17,   ///< up to 7 request ids of the next record with a head
  words = 18,      ///< up to 7 argument words of the next record with a head; of a stage or mark that came through
                   ///< NVTX: payload, its argument_kind | colour << 32, category | site of the category's name << 32
};

// Bits of the flags in record::head.
constexpr std::uint8_t flag_adopted = 1;  ///< stage: the record is the part of it that ran on a thread which adopted it
constexpr std::uint8_t flag_span = 2;     ///< stage: a movable span, not bound to one thread's nesting
constexpr std::uint8_t flag_dynamic = 4;  ///< stage, mark: text records hold its name; `site`: 0, or of the NVTX domain
constexpr std::uint8_t flag_ns_times = 8;  ///< gpu: begin and end are ns of the raw frame (clock.hpp), not ticks
constexpr std::uint8_t flag_runtime = 16;  ///< api: a runtime-API function (else driver API)
constexpr std::uint8_t flag_failed = 32;   ///< api: the call returned an error
constexpr std::uint8_t flag_pushed = 128;  ///< stage: a pushed NVTX range, whose pop may never come
constexpr std::uint8_t flag_shown = 64;    ///< stage: reported to table::stage_begins, so its end must be reported, too

/// First word of a record, in one piece so that a marker writes it with one store: type, flags, form of the request, a
/// count (api: argument words, gpu: kind of event) and the site (gpu: that of the name; api: see make_api_head).
constexpr std::uint64_t make_head(record_type type, std::uint8_t flags, request_form form, std::uint8_t count,
                                  std::uint32_t site) noexcept {
  return static_cast<std::uint64_t>(type) | static_cast<std::uint64_t>(flags) << 8 |
         static_cast<std::uint64_t>(form) << 16 | static_cast<std::uint64_t>(count) << 24 |
         static_cast<std::uint64_t>(site) << 32;
}
/// The head of an api record. Its site holds two function ids, which are below 4,096, and the high half of
/// api_call::context; its form holds the low half.
constexpr std::uint64_t make_api_head(std::uint8_t flags, std::uint8_t count, std::uint32_t function,
                                      std::uint32_t runtime_function, std::uint16_t context) noexcept {
  return make_head(record_type::api, flags, static_cast<request_form>(context & 0xff), count,
                   (function & 0xfff) | (runtime_function & 0xfff) << 12 | std::uint32_t{context} >> 8 << 24);
}
constexpr std::uint32_t function_of(std::uint32_t api_site) noexcept { return api_site & 0xfff; }
constexpr std::uint32_t runtime_function_of(std::uint32_t api_site) noexcept { return api_site >> 12 & 0xfff; }
/// `api_head`: of an api record.
constexpr std::uint32_t context_of(std::uint64_t api_head) noexcept {
  return static_cast<std::uint32_t>((api_head >> 16 & 0xff) | (api_head >> 56) << 8);
}
constexpr std::uint64_t head_flags(std::uint8_t flags) noexcept { return static_cast<std::uint64_t>(flags) << 8; }
constexpr std::uint64_t head_form_mask = 0xff0000;

/// One cache line. Times are raw ticks of `clock::ticks()` unless a flag says otherwise; 0 means unknown.
struct alignas(64) record {
  std::uint64_t head;  ///< see make_head
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t id;      ///< stage: instance; api, gpu: correlation id in the low 32 bits; api: result in the high ones
  std::uint64_t parent;  ///< instance of the enclosing stage, 0 at top level
  std::uint64_t a, b, c;  ///< stage, mark: a = request word, b = stage_frame::depth_and_trace | index of the
                          ///< thread where a span began << 32, c = instance that named the request;
                          ///< api: first arguments; gpu: see collect/gpu_record.hpp

  record_type type() const noexcept { return static_cast<record_type>(head & 0xff); }
  bool has(std::uint8_t flag) const noexcept { return (head & head_flags(flag)) != 0; }
  request_form form() const noexcept { return static_cast<request_form>(head >> 16 & 0xff); }
  std::uint8_t count() const noexcept { return static_cast<std::uint8_t>(head >> 24 & 0xff); }
  std::uint32_t site() const noexcept { return static_cast<std::uint32_t>(head >> 32); }
};
static_assert(sizeof(record) == 64 && alignof(record) == 64, "the record is one cache line");
static_assert(std::is_trivially_copyable<record>::value, "records are copied as bytes");

/// Continuation of type `text`: `size` bytes of `bytes` are text, `total` is the size of the whole text in bytes.
struct alignas(64) text_record {
  record_type type;
  std::uint8_t size;
  std::uint16_t total;
  std::uint8_t slot;  ///< 0: name of the next record with a head, 1: its request
  std::uint8_t reserved[11];
  char bytes[48];
};
static_assert(sizeof(text_record) == 64, "continuations are one cache line");

/// Continuation of type `requests` or `words`.
struct alignas(64) words_record {
  record_type type;
  std::uint8_t size;  ///< number of words in use, at most 7
  std::uint8_t reserved[2];
  std::uint32_t enclosing;  ///< api: correlation id of the driver call in which this call was made, 0: none
  std::uint64_t words[7];
};
static_assert(sizeof(words_record) == 64, "continuations are one cache line");

/// The id of a request that is named by a text.
inline std::uint64_t hash_text(const char* text, std::size_t size) noexcept {
  std::uint64_t h = 14695981039346656037u;  // FNV-1a, 64 bits
  for (std::size_t i = 0; i < size; ++i) h = (h ^ static_cast<unsigned char>(text[i])) * 1099511628211u;
  return h;
}

constexpr std::uint32_t text_limit_bytes = 480;  ///< longer run-time names and text requests are cut here

}  // namespace detail
CUTRACE_END_NAMESPACE
