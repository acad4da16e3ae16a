// SPDX-License-Identifier: Apache-2.0
// The tool's side of NVTX 3: the functions that NVTX calls once this object has been attached to an instance of it.
// The injected library does so by InitializeInjectionNvtx2; a program that is linked with its own tracing does it by
// static_injection.hpp. Marks and ranges go to the runtime that the markers of this object use.
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cutrace/nvtx/abi.hpp>
#include <cutrace/nvtx/ranges.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace nvtx CUTRACE_LOCAL {

/// NVTX's functions. All may be called from any thread; none throws, whatever it is given.
class ingest {
 public:
  /// Attaches to one instance of NVTX. False when it speaks another interface. Any thread, once per instance.
  static bool attach(get_export_table tables) noexcept {
    if (tables == nullptr) return false;
    static const bool watching = pthread_atfork(nullptr, nullptr, [] { forked().store(true); }) == 0;
    static_cast<void>(watching);
    const callbacks_table* callbacks = static_cast<const callbacks_table*>(tables(table_callbacks));
    if (callbacks == nullptr || callbacks->struct_size < sizeof(*callbacks) || callbacks->get_module == nullptr)
      return false;
    any_function** functions = nullptr;
    unsigned size = 0;
    if (callbacks->get_module(module_core, &functions, &size) == 0) return false;
    const slots one{functions, size};
    one.set(core::mark_ex, [](const event_attributes* a) { mark(nullptr, a); });
    one.set(core::mark_a, [](const char* text) { mark(nullptr, nullptr, message(text)); });
    one.set(core::mark_w, [](const wchar_t* text) { mark(nullptr, nullptr, message(text)); });
    one.set(core::range_start_ex, [](const event_attributes* a) { return start(nullptr, a); });
    one.set(core::range_start_a, [](const char* text) { return start(nullptr, nullptr, message(text)); });
    one.set(core::range_start_w, [](const wchar_t* text) { return start(nullptr, nullptr, message(text)); });
    one.set(core::range_end, [](range_id id) { end(id); });
    one.set(core::range_push_ex, [](const event_attributes* a) { return push(nullptr, a); });
    one.set(core::range_push_a, [](const char* text) { return push(nullptr, nullptr, message(text)); });
    one.set(core::range_push_w, [](const wchar_t* text) { return push(nullptr, nullptr, message(text)); });
    one.set(core::range_pop, [] { return pop(nullptr); });
    one.set(core::name_category_a, [](std::uint32_t c, const char* text) { name_category(nullptr, c, text); });
    one.set(core::name_category_w,
            [](std::uint32_t c, const wchar_t* text) { name_category(nullptr, c, narrowed(text).text()); });
    one.set(core::name_os_thread_a, [](std::uint32_t id, const char* text) { name_thread(id, text); });
    one.set(core::name_os_thread_w,
            [](std::uint32_t id, const wchar_t* text) { name_thread(id, narrowed(text).text()); });

    if (callbacks->get_module(module_core2, &functions, &size) == 0) return true;
    const slots two{functions, size};
    two.set(core2::domain_mark_ex, [](handle d, const event_attributes* a) { mark(d, a); });
    two.set(core2::domain_range_start_ex, [](handle d, const event_attributes* a) { return start(d, a); });
    two.set(core2::domain_range_end, [](handle, range_id id) { end(id); });
    two.set(core2::domain_range_push_ex, [](handle d, const event_attributes* a) { return push(d, a); });
    two.set(core2::domain_range_pop, [](handle d) { return pop(d); });
    two.set(core2::domain_name_category_a,
            [](handle d, std::uint32_t c, const char* text) { name_category(d, c, text); });
    two.set(core2::domain_name_category_w,
            [](handle d, std::uint32_t c, const wchar_t* text) { name_category(d, c, narrowed(text).text()); });
    two.set(core2::domain_register_string_a, [](handle d, const char* text) { return register_string(d, text); });
    two.set(core2::domain_register_string_w,
            [](handle d, const wchar_t* text) { return register_string(d, narrowed(text).text()); });
    two.set(core2::domain_create_a, [](const char* text) { return create_domain(text); });
    two.set(core2::domain_create_w, [](const wchar_t* text) { return create_domain(narrowed(text).text()); });
    // A destroyed domain keeps its number, since ranges of it may still be open. Resources are not recorded, and
    // nvtxInitialize has done its work when it comes here: NVTX calls nothing where a function is not set.
    return true;
  }

  /// Attaches to an extension of one instance of NVTX. False for all but that of payloads, of which ranges and marks
  /// are taken in: a range may be pushed without a payload and popped with one (NCCL's are). The data themselves are
  /// not recorded, nor a name that stands among them. Any thread.
  static bool attach(extension_module* to) noexcept {
    if (to == nullptr || to->struct_size < sizeof(*to) || to->module != payload_extension || to->segment_count == 0 ||
        to->segments == nullptr || to->segments->slots == nullptr)
      return false;
    const auto set = [&](std::uint32_t which, auto f) {
      if (which < to->segments->slot_count) to->segments->slots[which] = reinterpret_cast<std::intptr_t>(+f);
    };
    using data = const void*;  // nvtxPayloadData_t
    set(payload::mark, [](handle d, data, std::size_t) { mark(d, nullptr); });
    set(payload::range_push, [](handle d, data, std::size_t) { return push(d, nullptr); });
    set(payload::range_pop, [](handle d, data, std::size_t) { return pop(d); });
    set(payload::range_start, [](handle d, data, std::size_t) { return start(d, nullptr); });
    set(payload::range_end, [](handle, range_id id, data, std::size_t) { end(id); });
    return true;
  }

 private:
  /// A module's table of pointers to function pointers.
  struct slots {
    any_function** functions;
    unsigned size;
    template <class Function>
    void set(std::uint32_t which, Function f) const noexcept {
      if (which < size && functions[which] != nullptr) *functions[which] = reinterpret_cast<any_function>(+f);
    }
  };

  /// In a forked child nothing is recorded, and no lock is taken that another thread may have held.
  static std::atomic<bool>& forked() noexcept {
    static std::atomic<bool> is_child{false};
    return is_child;
  }

  /// Runs what may run out of memory; the program must not notice.
  template <class Result, class Action>
  static Result guarded(Result otherwise, const Action& action) noexcept {
    if (forked().load(std::memory_order_relaxed)) return otherwise;
    try {
      return action();
    } catch (...) {
      return otherwise;
    }
  }

  static void mark(handle d, const event_attributes* given) noexcept {
    const event_attributes a = known_part(given);
    mark(d, &a, message(a));
  }
  static void mark(handle d, const event_attributes* known, const message& m) noexcept {
    guarded(0, [&] {
      const std::uint32_t in = names::get().domain_of(d);
      if (!names::get().at(in).own) write_mark(in, m, known != nullptr ? *known : event_attributes{});
      return 0;
    });
  }

  static range_id start(handle d, const event_attributes* given) noexcept {
    const event_attributes a = known_part(given);
    return start(d, &a, message(a));
  }
  static range_id start(handle d, const event_attributes* known, const message& m) noexcept {
    return guarded(range_id{0}, [&] {
      const std::uint32_t in = names::get().domain_of(d);
      if (names::get().at(in).own) return range_id{0};
      return started_ranges::get().start(in, m, known != nullptr ? *known : event_attributes{});
    });
  }
  static void end(range_id id) noexcept {
    guarded(0, [&] {
      started_ranges::get().end(id);
      return 0;
    });
  }

  static int push(handle d, const event_attributes* given) noexcept {
    const event_attributes a = known_part(given);
    return push(d, &a, message(a));
  }
  static int push(handle d, const event_attributes* known, const message& m) noexcept {
    return guarded(no_level, [&] {
      const std::uint32_t in = names::get().domain_of(d);
      pushed_ranges* mine = names::get().at(in).own ? nullptr : pushed_ranges::of_thread();
      return mine != nullptr ? mine->push(in, m, known != nullptr ? *known : event_attributes{}) : no_level;
    });
  }
  static int pop(handle d) noexcept {
    return guarded(no_level, [&] {
      const std::uint32_t in = names::get().domain_of(d);
      pushed_ranges* mine = names::get().at(in).own ? nullptr : pushed_ranges::of_thread();
      return mine != nullptr ? mine->pop(in) : no_level;
    });
  }

  static handle create_domain(const char* text) noexcept {
    return guarded(handle{nullptr}, [&] { return names::get().add_domain(text); });
  }
  static handle register_string(handle d, const char* text) noexcept {
    return guarded(handle{nullptr}, [&] { return names::get().add_string(names::get().domain_of(d), text); });
  }
  static void name_category(handle d, std::uint32_t category, const char* text) noexcept {
    guarded(0, [&] {
      names::get().name_category(names::get().domain_of(d), category, text);
      return 0;
    });
  }

  static void name_thread(std::uint32_t id, const char* text) noexcept {
    if (text == nullptr || forked().load(std::memory_order_relaxed)) return;
    // So that the runtime sees the thread end and forgets the name before the kernel gives the number to another one.
    if (id == static_cast<std::uint32_t>(syscall(SYS_gettid))) detail::this_thread();
    const detail::table* owner = detail::find_runtime();
    if (owner != nullptr && owner->size >= sizeof(*owner)) owner->name_thread(id, text);
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
