// SPDX-License-Identifier: Apache-2.0
// How objects (executable, shared libraries) of one process find each other. Each object has its own copy of a hidden
// global of a header, and dlsym finds none of them. So every object carries an ELF note whose descriptor is the
// distance from the descriptor to the object's slot; dl_iterate_phdr leads to the notes of all objects.
#pragma once

#include <link.h>

#include <atomic>
#include <cstdint>
#include <cutrace/marker/table.hpp>

#define CUTRACE_SLOT_SYMBOL CUTRACE_CONCAT(cutrace_slot_abi, CUTRACE_ABI_VERSION)
#define CUTRACE_QUOTE_2(x) #x
#define CUTRACE_QUOTE(x) CUTRACE_QUOTE_2(x)

// The slot. Weak: the translation units of one object share it. Hidden: no other object ever binds to it. Used: an
// optimiser that sees the whole program must not drop or rename what only the note refers to.
extern "C" {
__attribute__((weak, used, visibility("hidden")))
cutrace::detail::slot CUTRACE_SLOT_SYMBOL = {{cutrace::detail::gate_unresolved}, CUTRACE_ABI_VERSION, {nullptr}};
}

// The note: name "cutrace", type CUTRACE_ABI_VERSION, descriptor: 64-bit distance from the descriptor to the slot.
// Not in a section group, since linkers that collect garbage keep notes only outside of groups; the notes of several
// translation units of an object all lead to the same slot.
#if defined(__aarch64__)
#define CUTRACE_WORD64 ".xword "
#else
#define CUTRACE_WORD64 ".quad "
#endif
// clang-format off
__asm__(
    ".pushsection .note.cutrace,\"a\",%note\n"
    ".balign 4\n"
    ".long 8\n"
    ".long 8\n"
    ".long " CUTRACE_QUOTE(CUTRACE_ABI_VERSION) "\n"
    ".asciz \"cutrace\"\n"
    CUTRACE_WORD64 CUTRACE_QUOTE(CUTRACE_SLOT_SYMBOL) " - .\n"
    ".popsection\n");
// clang-format on
#undef CUTRACE_WORD64

CUTRACE_BEGIN_NAMESPACE
namespace detail {

CUTRACE_INLINE slot& own_slot() noexcept { return CUTRACE_SLOT_SYMBOL; }

using slot_visitor = void (*)(slot*, void*);

struct slot_walk {
  slot_visitor visit;
  void* data;
};

CUTRACE_LOCAL CUTRACE_NOINLINE inline int visit_object(dl_phdr_info* info, std::size_t, void* data) noexcept {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
    const char* end = at + segment.p_memsz;
    while (static_cast<std::size_t>(end - at) >= sizeof(ElfW(Nhdr))) {
      const ElfW(Nhdr)* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const char* name = at + sizeof(*note);
      // Name and descriptor are padded to 8 bytes in segments that are aligned to 8, else to 4.
      const std::size_t align = segment.p_align == 8 ? 8 : 4;
      const std::size_t name_bytes = (note->n_namesz + align - 1) & ~(align - 1);
      const std::size_t desc_bytes = (note->n_descsz + align - 1) & ~(align - 1);
      if (static_cast<std::size_t>(end - name) < name_bytes + desc_bytes) break;
      const char* desc = name + name_bytes;
      if (note->n_type == CUTRACE_ABI_VERSION && note->n_namesz == 8 && note->n_descsz == 8 &&
          __builtin_memcmp(name, "cutrace", 8) == 0) {
        std::int64_t distance;
        __builtin_memcpy(&distance, desc, sizeof(distance));
        slot* found = reinterpret_cast<slot*>(const_cast<char*>(desc) + distance);
        const slot_walk* walk = static_cast<const slot_walk*>(data);
        walk->visit(found, walk->data);
      }
      at = desc + desc_bytes;
    }
  }
  return 0;
}

/// Copies the name of a loaded object; within dl_iterate_phdr. Byte by byte: the loader allocates the names of objects
/// under its own lock, which ThreadSanitizer does not see, so that it would report a race in functions of <cstring>.
template <std::size_t N>
CUTRACE_LOCAL CUTRACE_NOINLINE CUTRACE_NO_SANITIZE_THREAD inline const char* copy_name(const dl_phdr_info& object,
                                                                                       char (&to)[N]) noexcept {
  std::size_t n = 0;
  if (object.dlpi_name != nullptr)
    for (; n + 1 < N && object.dlpi_name[n] != '\0'; ++n) to[n] = object.dlpi_name[n];
  to[n] = '\0';
  return to;
}

/// Calls `visit` for the slot of every loaded object, perhaps more than once. Holds the loader's lock meanwhile, so
/// that of two threads that elect an owner the second one sees what the first one did. Any thread.
CUTRACE_LOCAL CUTRACE_NOINLINE inline void for_each_slot(slot_visitor visit, void* data) noexcept {
  slot_walk walk{visit, data};
  dl_iterate_phdr(&visit_object, &walk);
}

CUTRACE_LOCAL CUTRACE_NOINLINE inline void find_owner(slot* s, void* found) noexcept {
  const table* owner = s->owner.load(std::memory_order_acquire);
  if (owner != nullptr) *static_cast<const table**>(found) = owner;
}

/// Table of the process's runtime, or nullptr while there is none. Any thread.
CUTRACE_LOCAL CUTRACE_NOINLINE inline const table* find_runtime() noexcept {
  const table* owner = own_slot().owner.load(std::memory_order_acquire);
  if (owner == nullptr) for_each_slot(&find_owner, &owner);
  return owner;
}

/// At the first marker of an object that no session has found yet: the object joins the runtime if there is one, else
/// its gate stays off until a session starts, which opens the gates of all objects. Returns the gate. Any thread.
CUTRACE_LOCAL CUTRACE_NOINLINE inline std::uint32_t resolve_gate() noexcept {
  slot& own = own_slot();
  const table* owner = find_runtime();
  std::uint32_t expected = gate_unresolved;
  if (owner == nullptr) {
    own.gate.compare_exchange_strong(expected, gate_off, std::memory_order_acq_rel);
    return own.gate.load(std::memory_order_acquire);
  }
  own.owner.store(owner, std::memory_order_release);
  own.gate.compare_exchange_strong(expected, owner->gate_state(), std::memory_order_acq_rel);
  return own.gate.load(std::memory_order_acquire);
}

}  // namespace detail
CUTRACE_END_NAMESPACE
