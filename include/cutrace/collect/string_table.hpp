// SPDX-License-Identifier: Apache-2.0
// Interned text: one address for one content until the session ends, in bounded memory. Collector's thread only.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <cutrace/event.hpp>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class string_table {
 public:
  explicit string_table(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  static constexpr text no_room{"(no room for names)", 19};
  /// What is reported once a text has found no room.
  static constexpr const char* refusal =
      "there is no room for more names: new stages are called \"(no room for names)\", and kernels soon; raise "
      "CUTRACE_MEMORY_LIMIT, or put numbers into requests instead of names of stages";

  /// Beyond the limit, each further new text becomes `no_room`, and is counted.
  text intern(const char* data, std::size_t size) { return intern(data, size, limit_bytes_, no_room); }
  /// A text of which a program may make any number, such as a dynamic stage's name: these leave a quarter of the room
  /// to others. `instead` is what each becomes beyond that; it is not copied.
  text intern_dynamic(const char* data, std::size_t size, text instead = no_room) {
    return intern(data, size, limit_bytes_ / 4 * 3, instead);
  }

  /// Human form of a mangled C++ name; the name itself where it is none. Cached.
  text demangle(text mangled) {
    // Most are asked for right after they were interned: one address is one content, so no second look-up.
    if (last_ != nullptr && last_->first.data() == mangled.data && last_->first.size() == mangled.size &&
        last_->second.size != 0)
      return last_->second;
    const auto found = known_.find(std::string_view(mangled.data, mangled.size));
    if (found != known_.end() && found->second.size != 0) return found->second;
    text human = mangled;
    if (mangled.size > 2 && mangled.data[0] == '_' && mangled.data[1] == 'Z') {
      int status = 0;
      char* readable = abi::__cxa_demangle(mangled.data, nullptr, nullptr, &status);
      if (status == 0 && readable != nullptr) {
        const std::uint64_t refused = refused_;
        human = intern(readable, std::strlen(readable), limit_bytes_, mangled);
        refused_ = refused;  // without room for a second form there is still a name
      }
      std::free(readable);
    }
    const auto again = known_.find(std::string_view(mangled.data, mangled.size));
    if (again != known_.end()) again->second = human;
    return human;
  }

  std::uint64_t bytes() const noexcept { return used_bytes_; }
  /// Texts that found no room so far.
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  using table = std::unordered_map<std::string_view, text>;
  using entry = table::value_type;

  text intern(const char* data, std::size_t size, std::size_t limit_bytes, text instead) {
    if (size == 0) return {};
    const std::string_view key(data, size);
    entry*& here = recent_[slot_of(data, size)];
    if (CUTRACE_LIKELY(here != nullptr && here->first == key)) return text_of((last_ = here)->first);
    const auto found = known_.find(key);
    if (found != known_.end()) return text_of((here = last_ = &*found)->first);
    if (used_bytes_ + size + 1 > limit_bytes) {
      ++refused_;
      return instead;
    }
    char* at = allocate(size + 1);
    std::memcpy(at, data, size);
    at[size] = '\0';
    used_bytes_ += size + 1 + overhead_bytes;
    here = last_ = &*known_.emplace(std::string_view(at, size), text{}).first;
    return text_of(last_->first);
  }

  static text text_of(std::string_view s) noexcept { return {s.data(), static_cast<std::uint32_t>(s.size())}; }

  /// A name that is interned again mostly has the same address: a comparison instead of a hash of all its characters.
  static constexpr std::size_t recent_count = 64;
  static std::size_t slot_of(const char* data, std::size_t size) noexcept {
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(data);
    return (at >> 4 ^ at >> 10 ^ size) % recent_count;
  }

  static constexpr std::size_t block_bytes = 64u << 10;
  static constexpr std::size_t overhead_bytes = 64;  ///< of the map's node

  CUTRACE_NOINLINE char* allocate(std::size_t size) {
    if (size > block_bytes / 4) {
      large_.emplace_back(new char[size]);
      return large_.back().get();
    }
    if (blocks_.empty() || at_ + size > block_bytes) {
      blocks_.emplace_back(new char[block_bytes]);
      at_ = 0;
    }
    char* p = blocks_.back().get() + at_;
    at_ += size;
    return p;
  }

  table known_;  ///< content -> its human form, empty until asked for
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::vector<std::unique_ptr<char[]>> large_;
  std::size_t at_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t limit_bytes_;
  std::uint64_t refused_ = 0;
  entry* last_ = nullptr;  ///< entries do not move and are never erased
  entry* recent_[recent_count] = {};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
