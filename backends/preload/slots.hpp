// SPDX-License-Identifier: Apache-2.0
// The relocation slots of loaded objects (GOT entries, pointers in data): programs and libraries that were linked with
// libcuda call through them; code built with -fno-plt has no PLT stub, only the slot.
#pragma once

#include "process.hpp"
#include "slot_writer.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

class slots {
 public:
  /// Hooks the slots of every object that was loaded since the last scan. Changes nothing before the driver's library
  /// is loaded. Any thread.
  static void scan(process& p) noexcept {
    if (is_scanned(p) || !p.scanning.lock_soon()) return;  // the next scan will
    scan_locked(p);
    p.scanning.unlock();
  }
  /// The same for threads of ours. They ask the loader with process::scanning held, which a fork waits for: else the
  /// child could find the loader's lock taken, for ever.
  static void scan_apart(process& p) noexcept {
    if (!p.scanning.lock_soon()) return;
    if (!is_scanned(p)) scan_locked(p);
    p.scanning.unlock();
  }

 private:
  static bool is_scanned(const process& p) noexcept {
    const loaded_objects::changes now = loaded_objects::now();
    return p.scanned_added.load(std::memory_order_acquire) == now.added &&
           p.scanned_removed.load(std::memory_order_relaxed) == now.removed;
  }
  static void scan_locked(process& p) noexcept {
    const bool done = p.objects.with([&p](loaded_objects& all) { look(p, all); });
    if (!done) return;
    p.scanned_removed.store(p.scanned.removed, std::memory_order_relaxed);
    p.scanned_added.store(p.scanned.added, std::memory_order_release);
  }

  /// Objects that need no second look, by the address of their dynamic sections.
  class done_set {
   public:
    bool has(const void* object) const noexcept { return place(object) != nullptr && *place(object) == object; }
    void add(const void* object) noexcept {
      if (const void** at = const_cast<const void**>(place(object))) *at = object;
    }
    void clear() noexcept {
      for (const void*& p : all_) p = nullptr;
    }

   private:
    static constexpr std::size_t size = 4 * loaded_objects::limit;
    /// Where `object` is or would be; null where the set is full.
    const void* const* place(const void* object) const noexcept {
      std::size_t at = (reinterpret_cast<std::uintptr_t>(object) >> 4) * 0x9e3779b97f4a7c15u >> 40;
      for (std::size_t i = 0; i < size; ++i, ++at)
        if (all_[at % size] == nullptr || all_[at % size] == object) return &all_[at % size];
      return nullptr;
    }
    const void* all_[size];
  };

  static void look(process& p, const loaded_objects& all) noexcept {
    static done_set done;
    if (all.seen().removed != p.scanned.removed) done.clear();  // another object may lie there now
    const elf_image* driver = nullptr;
    for (const elf_image& i : all)
      if (driver == nullptr && is_driver_library(i)) driver = &i;
    p.scanned = all.seen();
    if (driver == nullptr) {
      if (!p.driver.present()) return;
      p.events.forget();
      p.driver.forget();
      return;
    }
    if (!p.driver.is(*driver)) {
      p.driver.take(*driver);
      p.events.take(p.driver);
      done.clear();
    }
    const auto self = reinterpret_cast<std::uintptr_t>(&cutrace_preload_thunks[0]);
    for (const elf_image& i : all) {
      if (!i.readable() || p.driver.is(i) || i.contains(self) || is_loader(i) || done.has(i.identity())) continue;
      if (hook_slots(p, all, i))
        done.add(i.identity());
      else
        p.scanned = {};  // look again next time
    }
  }

  static bool is_loader(const elf_image& i) noexcept { return early::starts_with(i.soname(), "ld-linux"); }

  /// False where some slots could not be hooked yet.
  static bool hook_slots(process& p, const loaded_objects& all, const elf_image& object) noexcept {
    slot_writer to(object);
    bool complete = true;
    object.for_each_slot([&](const elf_image::slot& s) {
      if (!is_driver_name(s.name)) return;
      const std::uintptr_t value = __atomic_load_n(s.place, __ATOMIC_ACQUIRE);
      std::uintptr_t real = 0;
      if (p.driver.executes(value)) {
        real = value;
      } else {
        const std::uintptr_t exported = p.driver.find(s.name);
        if (exported == 0) return;
        // Not bound yet: the slot leads to the object's own stub, which asks the loader. We bind it now, since the
        // loader would overwrite a hook; but only where the loader would choose the driver's function.
        if (s.of_call && object.executes(value) && !defined_elsewhere(p, all, s.name))
          real = exported;
        else if (value < object.span() && !stays(s.place, value, to))
          complete = false;  // not relocated yet: another thread is loading it
      }
      if (real != 0 && !to.store(s.place, p.hooked(real, s.name))) complete = false;
    });
    return complete;
  }

  /// Whether the loader is done with the slot and has left `value` there: 0 for a weak name that nothing defined then.
  static bool stays(const std::uintptr_t* slot, std::uintptr_t value, slot_writer& to) noexcept {
    return to.is_final(slot) && __atomic_load_n(slot, __ATOMIC_ACQUIRE) == value;
  }

  /// Whether an object other than the driver's library defines `name`: the loader may find that one first.
  static bool defined_elsewhere(const process& p, const loaded_objects& all, const char* name) noexcept {
    for (const elf_image& i : all)
      if (!p.driver.is(i) && i.find_function(name) != 0) return true;
    return false;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
