// SPDX-License-Identifier: Apache-2.0
// Domains, registered strings and categories of the NVTX that a process ingests. Kept until the process ends, one of
// each content, in bounded memory. Handles are numbers, so that a foreign or stale one leads to no memory of others.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <cutrace/detail/thread.hpp>
#include <cutrace/nvtx/abi.hpp>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>

CUTRACE_BEGIN_NAMESPACE
namespace nvtx CUTRACE_LOCAL {

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

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
