// SPDX-License-Identifier: Apache-2.0
// What host slices of one name begin with in a Perfetto trace, as it stands in the file: type, number of the name,
// category, and for calls that make the GPU work the beginning of their arrow. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/detail/json_text.hpp>
#include <cutrace/detail/kept_slot.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/chrome_args.hpp>
#include <cutrace/sinks/perfetto_names.hpp>
#include <cutrace/sinks/perfetto_notes.hpp>
#include <cutrace/sinks/perfetto_wire.hpp>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

class slice_begins {
 public:
  enum class arrow : std::uint8_t { none, launch, wait };

  /// Of slices that have kind, name and category in common.
  class head {
   public:
    std::uint32_t name() const noexcept { return name_; }  ///< of slice_names
    arrow calls() const noexcept { return calls_; }

    /// Room for 16.
    CUTRACE_INLINE char* put(char* to) const noexcept {
      std::memcpy(to, text_, sizeof(text_));
      return to + size_;
    }
    /// Right behind `put`, which has written all of it but its length and `work`, the number of the GPU's work.
    CUTRACE_INLINE static char* put_arrow(char* to, std::uint64_t work) noexcept {
      char* const end = put_varint(to + arrow_size, work);
      to[arrow_size - 2] = static_cast<char>(end - to - (arrow_size - 1));
      return end;
    }

   private:
    friend class slice_begins;
    static constexpr int arrow_size = 5;  ///< before `work`: a tag of three bytes, a length, a tag

    CUTRACE_INLINE bool is_of(slice_names::table::key key, slice_category category) const noexcept {
      return category_ == category && key_[0] == key.word[0] && key_[1] == key.word[1];
    }
    void fill(slice_names::table::key key, slice_category category, std::uint32_t name, arrow calls) noexcept {
      key_[0] = key.word[0];
      key_[1] = key.word[1];
      name_ = name;
      calls_ = calls;
      category_ = category;
      char* to = put_number<pf::event_field::type>(text_, pf::event_field::slice_begin);
      to = put_number<pf::event_field::name_iid>(to, name);
      to = put_number<pf::event_field::category_iids>(to, static_cast<std::uint64_t>(category));
      size_ = static_cast<std::uint8_t>(to - text_);
      to = open_message<pf::event_field::gpu_correlation>(to);
      calls == arrow::wait ? put_tag<pf::event_field::wait_event_ids, protozero::pbf_wire_type::varint>(to)
                           : put_tag<pf::event_field::submission_event_ids, protozero::pbf_wire_type::varint>(to);
    }

    std::uint64_t key_[2];
    std::uint32_t name_;
    slice_category category_ = slice_category::none;  ///< none: nothing stands here
    arrow calls_;
    std::uint8_t size_;
    char text_[16] = {};  ///< at most 15
  };

  /// Valid until the next call. `kind` is the event's.
  CUTRACE_INLINE const head& of(const event& e, event_kind kind, slice_names& names) {
    const slice_names::table::key key = slice_names::key_of(e, kind);
    const slice_category category = category_of(e, kind);
    head& h = kept_[kept_slot<slots>(key.word[0] ^ key.word[1])];
    if (CUTRACE_LIKELY(h.is_of(key, category))) return h;
    return find(h, key, category, e, names);
  }
  void clear() noexcept {
    for (head& h : kept_) h.category_ = slice_category::none;
  }

 private:
  static constexpr std::size_t slots = 256;

  CUTRACE_ONE_COPY static const head& find(head& h, slice_names::table::key key, slice_category category,
                                           const event& e, slice_names& names) {
    const std::string_view call = view_of(e.name);
    const bool waits = call.find("Synchronize") != std::string_view::npos;
    const arrow calls = e.kind != event_kind::api || !starts_flow(call) ? arrow::none
                        : waits                                         ? arrow::wait
                                                                        : arrow::launch;
    h.fill(key, category, names.of(e), calls);
    return h;
  }

  head kept_[slots];
};

}  // namespace detail
CUTRACE_END_NAMESPACE
