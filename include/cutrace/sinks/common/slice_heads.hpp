// SPDX-License-Identifier: Apache-2.0
// How Chrome JSON slices begin: category and name, spelt as PyTorch's Kineto spells them (libkineto output_json.cpp,
// CuptiActivity.h), since HTA, TraceLens and others match on these words. The few hundred names of a program stand in
// millions of slices, so the text of the last ones is kept. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/base/recent_slot.hpp>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/names.hpp>
#include <cutrace/output/json_text.hpp>
#include <string>
#include <string_view>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

inline std::string_view chrome_category(const event& e) noexcept {
  switch (e.kind) {
    case event_kind::stage:
    case event_kind::nvtx:
      return "user_annotation";
    case event_kind::api:
      return e.api.runtime_api ? "cuda_runtime" : "cuda_driver";
    case event_kind::kernel:
    case event_kind::graph_launch:
      return "kernel";
    case event_kind::memcpy:
      return "gpu_memcpy";
    case event_kind::memset:
      return "gpu_memset";
    case event_kind::sync:
      return "cuda_sync";
    default:
      return to_string(e.kind);
  }
}

/// Copies, sets and synchronisations are named by what they do, everything else by its own name.
inline void chrome_name(std::string& out, const event& e) {
  switch (e.kind) {
    case event_kind::memcpy:
      out.append("Memcpy ").append(to_string(e.memcpy_.direction)).append(" (").append(to_string(e.memcpy_.source));
      out.append(" -> ").append(to_string(e.memcpy_.destination)).append(")");
      return;
    case event_kind::memset:
      out.append("Memset (").append(to_string(e.memset_.memory)).append(")");
      return;
    case event_kind::sync:
      out.append(to_string(e.sync.what));
      return;
    case event_kind::graph_launch:
      out.append("CUDA graph");
      if (e.kernel.graph_id != 0) out.append(" ").append(std::to_string(e.kernel.graph_id));
      return;
    case event_kind::memory:
      out.append(to_string(e.memory.operation)).append(" ").append(std::to_string(e.memory.bytes)).append(" bytes");
      return;
    case event_kind::loss:
      out.append("lost: ").append(to_string(e.loss.cause));
      return;
    default:
      break;
  }
  // A kernel of this name is "Kernel" to Kineto's readers: the bare word is the category.
  const std::string_view name = view_of(e.name);
  out.append(e.kind == event_kind::kernel && name == "kernel" ? std::string_view("Kernel") : name);
}

class slice_heads {
 public:
  /// Forgets all: interned names live as long as their session.
  void clear() { kept_.assign(slots, kept()); }

  /// `{"ph":"X","cat":"kernel","name":"gemm"`, valid until the next call.
  std::string_view of(const event& e) {
    const head_key key = key_of(e);
    kept& k = kept_[slot_of(key)];
    if (CUTRACE_LIKELY(k.text_is_of == key)) return k.text;
    return render(k, key, e);
  }

 private:
  /// What a head depends on. Names are interned: equal addresses are equal texts. Words, not smaller members: these
  /// would be stored one by one and read together, for which the processor waits.
  struct head_key {
    std::uint64_t name;
    std::uint64_t what;  ///< kind, and size of the name or what it is made of; ~0 as none has
    bool operator==(const head_key& other) const noexcept { return name == other.name && what == other.what; }
  };
  struct kept {
    head_key text_is_of = {0, ~std::uint64_t{0}};
    std::string text;
  };
  static constexpr std::size_t slots = 256;
  static constexpr std::size_t text_limit = 1024;  // so all of them stay below 512 KiB; longer ones are made anew

  static head_key key_of(const event& e) noexcept {
    const std::uint64_t kind = std::uint64_t{static_cast<std::uint8_t>(e.kind)} << 56;
    switch (e.kind) {
      case event_kind::memcpy:
        return {0, kind | static_cast<std::uint64_t>(e.memcpy_.direction) |
                       static_cast<std::uint64_t>(e.memcpy_.source) << 8 |
                       static_cast<std::uint64_t>(e.memcpy_.destination) << 16};
      case event_kind::memset:
        return {0, kind | static_cast<std::uint64_t>(e.memset_.memory)};
      case event_kind::sync:
        return {0, kind | static_cast<std::uint64_t>(e.sync.what)};
      case event_kind::graph_launch:
        return {0, kind | e.kernel.graph_id};
      default:
        break;
    }
    const std::uint64_t runtime = e.kind == event_kind::api && e.api.runtime_api ? std::uint64_t{1} << 55 : 0;
    return {reinterpret_cast<std::uintptr_t>(e.name.data), kind | runtime | e.name.size};
  }
  static std::size_t slot_of(const head_key& key) noexcept { return kept_slot<slots>(key.name + key.what); }

  CUTRACE_NOINLINE std::string_view render(kept& k, const head_key& key, const event& e) {
    name_.clear();
    chrome_name(name_, e);
    scratch_.clear();
    scratch_.append("{\"ph\":\"X\",\"cat\":\"");
    scratch_.append(chrome_category(e));
    scratch_.append("\",\"name\":\"");
    append_escaped(scratch_, name_);
    scratch_.put('"');
    if (scratch_.size() > text_limit) return scratch_.view();
    k.text_is_of = head_key{0, ~std::uint64_t{0}};  // matches nothing, should memory run out in the next line
    k.text = scratch_.view();
    k.text_is_of = key;
    return k.text;
  }

  std::vector<kept> kept_ = std::vector<kept>(slots);
  text_buffer scratch_;
  std::string name_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
