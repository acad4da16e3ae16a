// SPDX-License-Identifier: Apache-2.0
// How the name of a CUDA function and the types of its parameters say what the call does and which of its arguments
// are stored. Every rule is about parts of names and types, with its reason. No rule lists functions: the headers do.
#pragma once

#include <algorithm>
#include <cctype>
#include <cutrace/cupti/functions_entry.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "facts.hpp"

namespace codegen {

using cutrace::argument_kind;
using cutrace::copy_direction;
using cutrace::cupti::function_parameter;
using cutrace::cupti::function_product;
using cutrace::cupti::function_work;
using cutrace::cupti::no_offset;
using cutrace::cupti::read_how;
using cutrace::cupti::word_limit;

// ---- names ----

inline bool starts_with(std::string_view s, std::string_view part) { return s.substr(0, part.size()) == part; }
inline bool ends_with(std::string_view s, std::string_view part) {
  return s.size() >= part.size() && s.substr(s.size() - part.size()) == part;
}
inline bool contains(std::string_view s, std::string_view part) { return s.find(part) != std::string_view::npos; }

/// Name as programs write it: without "_v3020", "_v2", "_ptsz", "_ptds", in whatever order.
inline std::string plain_name(std::string_view s) {
  for (;;) {
    if (ends_with(s, "_ptsz") || ends_with(s, "_ptds")) {
      s.remove_suffix(5);
      continue;
    }
    std::size_t digits = s.size();
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(s[digits - 1])) != 0) --digits;
    if (digits == s.size() || digits < 2 || s.substr(digits - 2, 2) != "_v") return std::string(s);
    s.remove_suffix(s.size() - digits + 2);
  }
}

/// Plain name without "cu", "cu64", "cuda": what the rules look at.
inline std::string stem(std::string_view symbol) {
  std::string s = plain_name(symbol);
  while (!s.empty() && s.front() == '_') s.erase(0, 1);
  for (std::string_view prefix : {"cuda", "cu64", "cu"}) {
    if (starts_with(s, prefix)) return s.substr(prefix.size());
  }
  return s;
}

/// `word` occurs as a whole camel-case word: "Get" in "StreamGetFlags", not in "Getter".
inline bool has_word(std::string_view s, std::string_view word) {
  for (std::size_t at = s.find(word); at != std::string_view::npos; at = s.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if (end == s.size() || std::islower(static_cast<unsigned char>(s[end])) == 0) return true;
  }
  return false;
}

enum class where { first, last, anywhere };

struct work_rule {
  where place;
  const char* part;
  function_work work;
  const char* reason;
};
constexpr work_rule work_rules[] = {
    {where::first, "LaunchHost", function_work::none, "runs a function of the host: no GPU record"},
    {where::first, "GraphLaunch", function_work::graph, "replays a graph"},
    {where::first, "Launch", function_work::launch, "every function that begins with Launch starts a kernel"},
    {where::first, "Memcpy", function_work::copy, "graph nodes and queries about copies begin with another word"},
    {where::first, "Memset", function_work::set, "as Memcpy"},
    {where::first, "MemAlloc", function_work::allocate, "device, pitched, managed, host and pool allocations"},
    {where::first, "MemHostAlloc", function_work::allocate, "page-locked memory"},
    {where::first, "MemCreate", function_work::allocate, "physical memory of the virtual memory interface"},
    {where::first, "Malloc", function_work::allocate, "runtime API"},
    {where::first, "HostAlloc", function_work::allocate, "runtime API"},
    {where::first, "MemFree", function_work::free, ""},
    {where::first, "MemRelease", function_work::free, "counterpart of MemCreate"},
    {where::first, "Free", function_work::free, "runtime API"},
    {where::last, "Synchronize", function_work::synchronize, "context, stream, event, device"},
    {where::first, "EventRecord", function_work::event, "its device time is a record of its own, where asked for"},
    {where::first, "StreamWaitEvent", function_work::synchronize, "orders streams, seen as a synchronisation record"},
};

inline function_work work_of(const std::string& s) {
  for (const work_rule& r : work_rules) {
    const std::string_view part = r.part;
    if (r.place == where::first && starts_with(s, part)) {
      const bool whole = s.size() == part.size() || std::islower(static_cast<unsigned char>(s[part.size()])) == 0;
      if (whole) return r.work;
    }
    if (r.place == where::last && ends_with(s, part)) return r.work;
  }
  return function_work::none;
}

struct query_rule {
  where place;
  const char* part;
  const char* reason;
};
constexpr query_rule query_rules[] = {
    {where::anywhere, "Get", "reads a property"},
    {where::anywhere, "Is", "asks for a state, e.g. whether a stream is capturing"},
    {where::anywhere, "Query", "polls an event or a stream without waiting"},
    {where::anywhere, "Peek", "reads the last error"},
    {where::anywhere, "Can", "asks for an ability, e.g. peer access"},
    {where::anywhere, "Occupancy", "computed on the host"},
    {where::first, "DeviceTotalMem", "reads a property"},
    {where::first, "DeviceComputeCapability", "reads a property"},
    {where::first, "CtxPushCurrent", "moves a context on the thread's stack; the runtime does it around most calls"},
    {where::first, "CtxPopCurrent", "as CtxPushCurrent"},
    {where::first, "CtxSetCurrent", "as CtxPushCurrent"},
    {where::first, "ThreadExchange", "thread-local mode of stream capture"},
    {where::first, "PushCallConfiguration", "first half of a <<<>>> launch, the launch itself follows"},
    {where::first, "PopCallConfiguration", "as PushCallConfiguration"},
};

/// What is got by name may be loaded on the way, which takes milliseconds: worth a span.
constexpr const char* loading_ends[] = {"GetFunction", "GetUnifiedFunction", "GetKernel",      "GetGlobal",
                                        "GetManaged",  "GetSymbolAddress",   "GetFuncBySymbol"};

inline bool query_of(const std::string& s, bool internal) {
  if (!internal) {  // "__cudaGetKernel" looks up what is loaded, at every launch
    for (const char* end : loading_ends) {
      if (ends_with(s, end)) return false;
    }
  }
  for (const query_rule& r : query_rules) {
    if (r.place == where::first ? starts_with(s, r.part) : has_word(s, r.part)) return true;
  }
  return false;
}

struct direction_rule {
  const char* part;
  copy_direction direction;
};
constexpr direction_rule direction_rules[] = {
    {"Peer", copy_direction::peer},
    {"HtoD", copy_direction::host_to_device},
    {"HtoA", copy_direction::host_to_device},
    {"DtoH", copy_direction::device_to_host},
    {"AtoH", copy_direction::device_to_host},
    {"DtoD", copy_direction::device_to_device},
    {"DtoA", copy_direction::device_to_device},
    {"AtoD", copy_direction::device_to_device},
    {"AtoA", copy_direction::device_to_device},
};

inline copy_direction direction_of(const std::string& s, function_work work) {
  if (work != function_work::copy) return copy_direction::unknown;
  for (const direction_rule& r : direction_rules) {
    if (contains(s, r.part)) return r.direction;
  }
  return copy_direction::unknown;  // unified addresses, or a direction that is an argument
}

// ---- parameters ----

/// Names of sizes in bytes: by themselves or in functions of a family only.
inline bool names_bytes(std::string_view parameter, const std::string& s) {
  if (contains(parameter, "bytes") || contains(parameter, "Bytes") || contains(parameter, "ByteCount")) return true;
  if (parameter == "size") return true;
  // The runtime's copies and the prefetch and advice functions say `count`; batches count their entries with it.
  return parameter == "count" && starts_with(s, "Mem") && !contains(s, "Batch") && !contains(s, "Attributes");
}

/// A parameter in bytes that says how much is moved or allocated: no offset, no pitch, no size of an element.
inline bool names_amount(std::string_view parameter) {
  return !contains(parameter, "Element") && !contains(parameter, "Offset") && !contains(parameter, "Pitch") &&
         !contains(parameter, "XInBytes");
}

/// Plural names are arrays whose length is another argument: nothing behind them is read, not even the first element,
/// because the length may be 0. Singular words that end in s are listed by their endings.
inline bool names_array(std::string_view parameter) {
  for (std::string_view out : {"_out", "Out"}) {
    if (ends_with(parameter, out)) parameter.remove_suffix(out.size());
  }
  if (parameter == "from" || parameter == "to" || ends_with(parameter, "_arr")) return true;
  if (!ends_with(parameter, "s") || parameter == "ms") return false;
  for (std::string_view singular : {"tatus", "ess", "ytes", "lags", "evious", "onds"}) {
    if (ends_with(parameter, singular)) return false;
  }
  // "numNodes", "numPackedAttributes": one number.
  return !starts_with(parameter, "num") && !starts_with(parameter, "pNum");
}

inline argument_kind kind_of(const parameter_facts& p, const std::string& s) {
  const std::string_view type = p.type;
  const bool star = contains(type, "*");
  if (p.t.stream) return argument_kind::stream;
  if (starts_with(type, "CUdeviceptr") && !star) return argument_kind::pointer;  // an integer to the compiler
  if (p.t.function_pointer) return argument_kind::pointer;
  if (p.t.pointer && !star) return argument_kind::handle;  // pointer to an opaque structure, hidden in a typedef
  if (p.t.pointer) return argument_kind::pointer;
  for (std::string_view end : {"Object", "Handle", "Object_t", "Handle_t"}) {
    if (ends_with(type, end) && p.t.integral) return argument_kind::handle;  // textures, physical memory, conditions
  }
  if (p.t.floating) return argument_kind::floating;
  if (!p.t.integral) return argument_kind::word;  // small structure by value
  if (!p.t.enumeration && !p.t.is_signed && p.t.size >= 4 && names_bytes(p.name, s)) return argument_kind::bytes;
  return p.t.is_signed ? argument_kind::integer : argument_kind::unsigned_integer;
}

/// Kind of what an output parameter points to.
inline argument_kind pointee_kind_of(const parameter_facts& p, const std::string& s) {
  std::string type = p.type;
  type.erase(std::min(type.rfind('*'), type.size()));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  type_facts t;
  t.size = p.t.pointee_size;
  t.pointer = p.t.pointee_pointer;
  t.floating = p.t.pointee_floating;
  t.is_signed = p.t.pointee_signed;
  t.integral = !t.pointer && !t.floating;
  if (type == "CUstream" || type == "cudaStream_t") t.stream = true;
  return kind_of({p.name, type.c_str(), 0, t}, s);
}

/// An output: pointer to one number, handle or address that the call writes.
inline bool is_output(const parameter_facts& p, function_work work) {
  if (!p.t.pointer || p.t.pointee_const || !p.t.pointee_scalar || p.t.pointee_size == 0 || p.t.pointee_size > 8) {
    return false;
  }
  if (p.t.pointee_char) return false;  // text and byte buffers
  // Launches get arguments and lists by pointer; copies get host memory, which may be gone or huge.
  if (work == function_work::launch || work == function_work::graph || work == function_work::copy ||
      work == function_work::set) {
    return false;
  }
  return !names_array(p.name);
}

/// Launches keep the function and the stream: grid, block and shared memory come with the GPU's record.
inline bool launch_keeps(const parameter_facts& p, argument_kind kind) {
  const std::string_view name = p.name;
  return kind == argument_kind::stream || kind == argument_kind::handle || name == "func" || name == "entry";
}

/// Everything that the table says about one function.
struct function_row {
  std::string name;
  std::string symbol;
  bool runtime = false;
  unsigned cbid = 0;
  bool known = false;
  bool query = false;
  bool makes_gpu_work = false;
  function_work work = function_work::none;
  copy_direction direction = copy_direction::unknown;
  int bytes_word = -1;
  std::vector<function_parameter> stored;
  std::vector<function_parameter> other;
  std::vector<function_product> products;  // function_parameter::offset counts from 0 within the row
};

}  // namespace codegen
