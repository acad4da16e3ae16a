// SPDX-License-Identifier: Apache-2.0
// What an NVTX call says of its range or mark: name, payload, category, colour; and how that is written into records.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/event.hpp>
#include <cutrace/marker/record.hpp>
#include <cutrace/marker/stage_write.hpp>
#include <cutrace/marker/thread.hpp>
#include <cutrace/nvtx/abi.hpp>
#include <mutex>
#include <string>
#include <unordered_map>

CUTRACE_BEGIN_NAMESPACE
namespace nvtx CUTRACE_LOCAL {

// Domains, registered strings and categories of the process's NVTX calls. Equal ones are stored once, all until the
// process ends, in bounded memory. Handles are numbers, so that a foreign or stale one is never dereferenced.

/// What cutrace emits itself stands in this domain and is not ingested again.
constexpr const char* own_domain = "cutrace";

/// A name under which ranges are recorded; the runtime copies both texts when it first meets the site.
struct named_site {
  named_site(std::string text, const char* domain)
      : name(std::move(text)), site{{0}, detail::site_kind::nvtx, name.c_str(), domain, 0, {nullptr}} {}
  named_site(const named_site&) = delete;
  named_site& operator=(const named_site&) = delete;
  const std::string name;
  detail::site site;
};

struct domain {
  explicit domain(std::string text)
      : name(std::move(text)), own(name == own_domain), untitled(std::string(), name.c_str()) {}
  const std::string name;  ///< empty: the default domain
  const bool own;
  named_site untitled;  ///< of ranges whose text comes with them
};

class names {
 public:
  static constexpr std::uint32_t domain_limit = 1024, string_limit = 4096;

  /// The process's; never destroyed.
  static names& get() {
    static names* n = new names();
    return *n;
  }

  /// Number of a domain; 0, the default one, for handles that are none of ours. Any thread.
  std::uint32_t domain_of(handle h) const noexcept {
    const std::uintptr_t n = reinterpret_cast<std::uintptr_t>(h);
    return n < domain_limit && domains_[n].load(std::memory_order_acquire) != nullptr ? static_cast<std::uint32_t>(n)
                                                                                      : 0;
  }
  domain& at(std::uint32_t number) noexcept { return *domains_[number].load(std::memory_order_acquire); }

  /// Registered string, or nullptr for a handle that is none of ours. Any thread.
  named_site* string_of(handle h) const noexcept {
    const std::uintptr_t n = reinterpret_cast<std::uintptr_t>(h);
    return n != 0 && n < string_limit ? strings_[n].load(std::memory_order_acquire) : nullptr;
  }

  /// The domain of that name. Beyond the limit they share the last one. @throws std::bad_alloc
  handle add_domain(const char* text) {
    std::string name = cut(text);
    std::lock_guard<std::mutex> hold(mutex_);
    if (name.empty()) return nullptr;
    const auto found = domain_numbers_.find(name);
    if (found != domain_numbers_.end()) return as_handle(found->second);
    const bool last = domain_count_ >= domain_limit - 1;
    if (last && domain_count_ == domain_limit) return as_handle(domain_limit - 1);
    domains_[domain_count_].store(new domain(last ? "(too many domains)" : name), std::memory_order_release);
    if (!last) domain_numbers_.emplace(std::move(name), domain_count_);
    return as_handle(domain_count_++);
  }

  /// The string of that text in that domain; null beyond the limit. @throws std::bad_alloc
  handle add_string(std::uint32_t in, const char* text) {
    std::lock_guard<std::mutex> hold(mutex_);
    return as_handle(string_number(in, text));
  }

  /// @throws std::bad_alloc
  void name_category(std::uint32_t in, std::uint32_t category, const char* text) {
    std::lock_guard<std::mutex> hold(mutex_);
    const std::uint32_t number = string_number(in, text);
    if (number == 0 || categories_.size() >= string_limit) return;
    categories_[std::uint64_t{in} << 32 | category] = number;
    have_categories_.store(true, std::memory_order_release);
  }
  /// Name of a category, nullptr where it has none.
  named_site* category_of(std::uint32_t in, std::uint32_t category) {
    if (!have_categories_.load(std::memory_order_acquire)) return nullptr;
    std::lock_guard<std::mutex> hold(mutex_);
    const auto found = categories_.find(std::uint64_t{in} << 32 | category);
    return found != categories_.end() ? strings_[found->second].load(std::memory_order_relaxed) : nullptr;
  }

 private:
  names() { domains_[0].store(new domain(std::string()), std::memory_order_relaxed); }

  static handle as_handle(std::uint32_t number) noexcept {
    return reinterpret_cast<handle>(static_cast<std::uintptr_t>(number));
  }
  static std::string cut(const char* text) {
    return text != nullptr ? std::string(text, strnlen(text, detail::text_limit_bytes)) : std::string();
  }

  std::uint32_t string_number(std::uint32_t in, const char* text) {
    std::string name = cut(text);
    std::string key = std::to_string(in) + '/' + name;
    const auto found = string_numbers_.find(key);
    if (found != string_numbers_.end()) return found->second;
    if (string_count_ == string_limit) return 0;
    strings_[string_count_].store(new named_site(std::move(name), at(in).name.c_str()), std::memory_order_release);
    string_numbers_.emplace(std::move(key), string_count_);
    return string_count_++;
  }

  std::mutex mutex_;
  std::atomic<domain*> domains_[domain_limit] = {};
  std::atomic<named_site*> strings_[string_limit] = {};
  std::uint32_t domain_count_ = 1, string_count_ = 1;  ///< number 0 is the default domain, and no string
  std::unordered_map<std::string, std::uint32_t> domain_numbers_, string_numbers_;
  std::unordered_map<std::uint64_t, std::uint32_t> categories_;
  std::atomic<bool> have_categories_{false};
};

// Wide text of NVTX as UTF-8, cut to what a record may hold. No allocation.

/// The same text in UTF-8, NUL-terminated, cut at a whole character. What is no code point becomes U+FFFD.
class narrowed {
 public:
  explicit narrowed(const wchar_t* wide) noexcept {
    static_assert(sizeof(wchar_t) == 4, "wide characters are code points here");
    std::size_t at = 0;
    for (; wide != nullptr && *wide != 0 && at + 4 <= detail::text_limit_bytes; ++wide)
      at += encode(static_cast<std::uint32_t>(*wide), text_ + at);
    text_[at] = '\0';
  }
  const char* text() const noexcept { return text_; }

 private:
  static std::size_t encode(std::uint32_t c, char* to) noexcept {
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) c = 0xfffd;
    if (c < 0x80) {
      to[0] = static_cast<char>(c);
      return 1;
    }
    const std::size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (std::size_t i = size - 1; i > 0; --i, c >>= 6) to[i] = static_cast<char>(0x80 | (c & 0x3f));
    to[0] = static_cast<char>((0xf00u >> size & 0xf0u) | c);
    return size;
  }

  char text_[detail::text_limit_bytes + 1];
};

/// Payload, category and colour, as words of a continuation record (detail::record_type::words).
struct extras {
  std::uint64_t words[3] = {};
  bool any() const noexcept { return (words[0] | words[1] | words[2]) != 0; }
};

/// The attributes as far as the caller's structure reaches; zeros beyond. Null is allowed.
inline event_attributes known_part(const event_attributes* from) noexcept {
  event_attributes a{};
  if (from != nullptr) std::memcpy(&a, from, from->size < sizeof(a) ? from->size : sizeof(a));
  return a;
}

inline extras read_extras(const event_attributes& a, std::uint32_t in, detail::thread_state* t) {
  extras e;
  argument_kind kind = argument_kind::word;
  double floating = 0;
  switch (a.payload_kind) {
    case payload_uint64:
      kind = argument_kind::unsigned_integer;
      e.words[0] = a.payload.unsigned_64;
      break;
    case payload_uint32:
      kind = argument_kind::unsigned_integer;
      e.words[0] = a.payload.unsigned_32;
      break;
    case payload_int64:
      kind = argument_kind::integer;
      e.words[0] = a.payload.unsigned_64;
      break;
    case payload_int32:
      kind = argument_kind::integer;
      e.words[0] = static_cast<std::uint64_t>(std::int64_t{a.payload.signed_32});
      break;
    case payload_double:
    case payload_float:
      kind = argument_kind::floating;
      floating = a.payload_kind == payload_double ? a.payload.floating_64 : double{a.payload.floating_32};
      std::memcpy(&e.words[0], &floating, sizeof(floating));
      break;
    default:
      break;
  }
  const std::uint64_t color = a.color_kind == color_argb ? a.color : 0;
  e.words[1] = static_cast<std::uint64_t>(kind) | color << 32;
  named_site* name = a.category != 0 ? names::get().category_of(in, a.category) : nullptr;
  e.words[2] = a.category | std::uint64_t{name != nullptr ? detail::site_id(t, name->site) : 0} << 32;
  return e;
}

inline detail::record* put_extras(detail::record* at, const extras& e) noexcept {
  detail::words_record piece{};
  piece.type = detail::record_type::words;
  piece.size = 3;
  std::memcpy(piece.words, e.words, sizeof(e.words));
  std::memcpy(static_cast<void*>(at), &piece, sizeof(piece));
  return at + 1;
}

/// Name of a range or mark: a registered string, or text that is valid while this object is.
class message {
 public:
  explicit message(const char* ascii) noexcept : text_(ascii), wide_(nullptr) {}
  explicit message(const wchar_t* wide) noexcept : wide_(wide) {
    if (wide != nullptr) text_ = wide_.text();
  }
  explicit message(const event_attributes& a) noexcept
      : text_(a.message_kind == message_ascii ? a.message.ascii : nullptr),
        wide_(a.message_kind == message_wide ? a.message.wide : nullptr),
        site_(a.message_kind == message_registered ? names::get().string_of(a.message.registered) : nullptr) {
    if (a.message_kind == message_wide && a.message.wide != nullptr) text_ = wide_.text();
  }
  message(const message&) = delete;
  message& operator=(const message&) = delete;

  named_site* site() const noexcept { return site_; }  ///< nullptr: `text` is the name
  const char* text() const noexcept { return text_ != nullptr ? text_ : "(no message)"; }

 private:
  const char* text_ = nullptr;
  narrowed wide_;
  named_site* site_ = nullptr;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
