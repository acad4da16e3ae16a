// SPDX-License-Identifier: Apache-2.0
// libcutrace_preload.so: what LD_PRELOAD names. Hooks every function of the driver that the program is handed, and
// opens a session at the first call of one. Where libcuda is never loaded, it hooks no function of the program.
#include <unistd.h>
#include <unwind.h>

#include <ctime>
#include <cutrace/nvtx/ingest.hpp>
#include <cutrace/run/backend_registry.hpp>
#include <cutrace/run/outside_session.hpp>

#include "preload_backend.hpp"

unsigned char cutrace_preload_floating[CUTRACE_HOOK_LIMIT] = {};  // see hooks.hpp
void* (*cutrace_preload_real_dlsym)(void*, const char*) = nullptr;
void* (*cutrace_preload_real_dlvsym)(void*, const char*, const char*) = nullptr;

namespace {

using namespace cutrace::preload;
using cutrace::detail::outside_session;

__attribute__((init_priority(101))) const cutrace::detail::backend_registration registration{
    "preload", false, []() -> cutrace::backend* { return new preload_backend(); }};

/// Threads that come meanwhile wait for the one that opens the session, so that their first calls are recorded: but not
/// for long, since one of them may hold what the opener needs.
cutrace::event_writer* open_session() {
  process& p = process::own();
  static thread_local bool opener = false;
  if (opener) return nullptr;
  int state = process::not_asked;
  if (p.session.compare_exchange_strong(state, process::being_opened)) {
    opener = true;
    if (!outside_session::wanted())
      p.off.store(true, std::memory_order_relaxed);
    else
      outside_session::open("preloaded", "preload");
    if (cutrace::event_writer* w = p.waiting_writer.exchange(nullptr)) p.record_to(*w);
    opener = false;
    p.session.store(process::settled, std::memory_order_release);
  } else if (state == process::being_opened) {
    const timespec pause{0, 1000000};
    for (int waited_ms = 0; waited_ms < 2000 && p.session.load(std::memory_order_acquire) == process::being_opened;
         ++waited_ms)
      ::nanosleep(&pause, nullptr);
    if (p.session.load(std::memory_order_acquire) == process::being_opened) p.missed.fetch_add(1);
  }
  return p.writer.load(std::memory_order_acquire);
}

/// Waits until no thread of ours is in the loader (slots::scan_apart), but not for long.
thread_local bool forks_alone = false;
void before_fork() { forks_alone = process::own().scanning.lock_soon(); }
void after_fork_in_parent() {
  if (forks_alone) process::own().scanning.unlock();
}

/// The forked child of a traced process is not traced: its threads are gone, and CUDA does not work in it. A child
/// forked before the parent's tracing began is a process like any other.
void after_fork() {
  process& p = process::own();
  p.hooks.after_fork();
  p.events.after_fork();
  p.scanning.reset();
  if (p.session.load(std::memory_order_relaxed) == process::not_asked && p.writer.load() == nullptr) return;
  p.off.store(true, std::memory_order_relaxed);
  p.writer.store(nullptr, std::memory_order_relaxed);
  if (thread_calls* t = thread_calls::existing()) {
    t->depth = 0;
    t->busy = false;
  }
}

__attribute__((constructor(101))) void begin() {
  doors::find_real();
  thread_calls::set_up(&calls::thread_ends);
  calls::first_call() = &open_session;
  // Names of kernels are kept from the first call on, in case their GPU times will be measured.
  process::own().events.set_learns(cutrace::detail::environment("CUTRACE_GPU_EVENTS") != nullptr);
  pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork);
  slots::scan(process::own());
  process::own().begun.store(true, std::memory_order_relaxed);
}

}  // namespace

/// By this symbol `cutrace doctor` recognises the library.
extern "C" __attribute__((visibility("default"), used)) const char cutrace_preloaded_library = 1;

// What the assembler file calls.
extern "C" {

CUTRACE_LOCAL void cutrace_preload_enter(call_frame* f) noexcept { calls::enter(*f); }
CUTRACE_LOCAL void cutrace_preload_leave(call_frame* f) noexcept { calls::leave(*f); }
CUTRACE_LOCAL void* cutrace_preload_find(void* handle, const char* name, const void* caller) noexcept {
  return doors::find(handle, name, nullptr, caller);
}
CUTRACE_LOCAL void* cutrace_preload_find_version(void* handle, const char* name, const char* version,
                                                 const void* caller) noexcept {
  return doors::find(handle, name, version, caller);
}

/// Of the trampoline's frame: an exception, or the end of the thread, passes through it.
CUTRACE_LOCAL int cutrace_preload_unwind(int, int actions, std::uint64_t, void*, void*) noexcept {
  if ((actions & _UA_CLEANUP_PHASE) != 0) calls::unwound(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
  return _URC_CONTINUE_UNWIND;
}

/// Called where LD_AUDIT names this library. Refuses: an auditor has a second C library, whose thread-specific data
/// overwrites the program's and whose fork handlers do not run. 0: the loader goes on without us.
__attribute__((visibility("default"))) unsigned la_version(unsigned) {
  cutrace::detail::write_error_line(
      "cutrace: libcutrace_preload.so cannot be used by LD_AUDIT: LD_PRELOAD is the way, or cutrace run --method "
      "preload");
  return 0;
}

/// For a runtime that was compiled into another object of this process: the same backend, by CUTRACE_BACKEND=preload.
__attribute__((visibility("default"))) cutrace::backend* CUTRACE_CONCAT(cutrace_backend_preload_abi,
                                                                        CUTRACE_ABI_VERSION)() {
  return new preload_backend();
}

/// NVTX's entry points, as in the injection library.
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(cutrace::nvtx::get_export_table tables) {
  return outside_session::attach_nvtx(tables, "preloaded", "preload");
}
__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(cutrace::nvtx::extension_module* module) {
  return outside_session::attach_nvtx(module);
}
}
