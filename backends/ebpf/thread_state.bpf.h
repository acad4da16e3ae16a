// SPDX-License-Identifier: Apache-2.0
// What all programs in the kernel share: the processes that are traced, the open calls of each thread, and the ring
// buffer. BPF objects that are loaded beside the first one use its maps, so that records of the kernel's work name the
// driver call in which it was done.
#ifndef CUTRACE_EBPF_THREAD_STATE_H
#define CUTRACE_EBPF_THREAD_STATE_H

#include <asm/ptrace.h>
#include <linux/bpf.h>
// clang-format off: the next two need what comes first
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
// clang-format on

#include "call_record.h"
#include "probe_record.h"

#define STATIC_INLINE static __always_inline
/* Hides a value from the compiler, which would otherwise merge checks of it so that the verifier cannot follow them. */
#define KEEP(value) asm volatile("" : "+r"(value))
#define WORDS 16 /* registers and stack words, and a power of two */

/* Of the kernel's structures only what is read. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
typedef struct {
  int counter;
} atomic_t;
struct ns_common {
  unsigned int inum;
};
struct pid_namespace {
  struct ns_common ns;
};
struct upid {
  int nr;
  struct pid_namespace *ns;
};
struct pid {
  unsigned int level;
  struct upid numbers[1];
};
struct signal_struct {
  atomic_t live;
};
struct inode {
  unsigned short i_mode;
  unsigned int i_rdev;
};
struct file {
  struct inode *f_inode;
};
struct fdtable {
  unsigned int max_fds;
  struct file **fd;
};
struct files_struct {
  struct fdtable *fdt;
};
struct thread_info {
  unsigned int status;
};
struct xol_area {
  unsigned long vaddr;
};
struct uprobes_state {
  struct xol_area *xol_area;
};
struct mm_struct {
  struct uprobes_state uprobes_state;
};
struct linux_binprm {
  unsigned int secureexec : 1; /* what AT_SECURE says: setuid, setgid, capabilities */
};
struct task_struct {
  struct mm_struct *mm;
  struct thread_info thread_info;
  struct files_struct *files;
  int pid;
  int tgid;
  struct task_struct *group_leader;
  struct signal_struct *signal;
  struct pid *thread_pid;
};
#pragma clang attribute pop

typedef _Bool bool;

/* Set before loading. */
SEC(".rodata.settings") volatile const struct cutrace_ebpf_settings settings = {};

struct open_call {
  __u64 entry_ns;
  __u64 sp;
  __u32 id;
  __u32 function;
  __u64 joined; /* as in struct cutrace_ebpf_call */
  __u64 words[WORDS];
};

/* An ioctl on a device of NVIDIA, while the thread is in it. */
struct open_ioctl {
  __u64 begin_ns;
  __u64 parameter;
  __u64 inner; /* the block that NV_ESC_IOCTL_XFER_CMD points to, 0: none */
  __u32 inside;
  __u32 id; /* of the call in which it was made */
  __u32 device;
  __u32 request;
  __u64 status; /* address of the NV_STATUS, where it is beyond what is copied, 0: it is not */
  __u8 bytes;   /* of the block that are read when it ends */
  __u8 entry_bytes;
  __u8 inner_bytes; /* of inner_entry, and as many are read when it ends */
  __u8 entry[CUTRACE_EBPF_BLOCK];
  __u8 inner_entry[CUTRACE_EBPF_BLOCK];
};

struct thread_state {
  __u32 depth;
  __u32 skipped; /* calls that were too deep and are still open */
  __u32 next_id;
  __u32 ids_left;
  __u32 process;
  __u32 thread;
  __u64 named_ns;
  __u64 name[2];
  __u64 off_ns; /* switched out since then, 0: not, or not inside of a call */
  __u32 off_state;
  __u32 off_id;
  __u64 function_ns[CUTRACE_EBPF_MODULE_FUNCTIONS]; /* inside of it since then, 0: not */
  struct open_ioctl ioctl;
  __u32 reported_bytes; /* written since the thread last asked how much waits in the ring */
  __u32 probe_depth;
  __u32 probe_skipped; /* as `skipped`, of probes */
  struct cutrace_ebpf_open_probe probes[CUTRACE_EBPF_PROBE_DEPTH];
  struct open_call open[CUTRACE_EBPF_DEPTH];
};

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 1 << 25);
} ring SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 16384);
  __type(key, __u32);
  __type(value, struct cutrace_ebpf_target);
} targets SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct thread_state);
} threads SEC(".maps");

/* A number in the reader's namespace; the task's own may be one inside of that. 0: it has none there. */
STATIC_INLINE __u32 number_of(struct pid *pid) {
  __u32 level = BPF_CORE_READ(pid, level);
  for (int i = 0; i < 8; ++i) {
    if (i > level) break;
    struct upid one;
    if (bpf_core_read(&one, sizeof(one), &pid->numbers[i]) != 0) break;
    struct pid_namespace *ns = one.ns;
    if (BPF_CORE_READ(ns, ns.inum) == settings.own_namespace) return one.nr;
  }
  return 0;
}
STATIC_INLINE __u32 process_of(struct task_struct *task) {
  if (settings.own_namespace == 0) return BPF_CORE_READ(task, tgid);
  return number_of(BPF_CORE_READ(task, group_leader, thread_pid));
}
STATIC_INLINE __u32 thread_of(struct task_struct *task) {
  if (settings.own_namespace == 0) return BPF_CORE_READ(task, pid);
  return number_of(BPF_CORE_READ(task, thread_pid));
}

STATIC_INLINE struct cutrace_ebpf_target *running_target(__u32 process) {
  struct cutrace_ebpf_target *t = bpf_map_lookup_elem(&targets, &process);
  return t && t->ended == CUTRACE_EBPF_RUNS ? t : 0;
}

STATIC_INLINE void count_loss(__u32 process, __u32 cause) {
  struct cutrace_ebpf_target *t = bpf_map_lookup_elem(&targets, &process);
  if (t && cause < CUTRACE_EBPF_LOSSES) __sync_fetch_and_add(&t->lost[cause], 1);
}

/* The reader is woken when settings.wake_bytes wait for it; with fewer it looks by itself from time to time. */
STATIC_INLINE __u64 wake(void) {
  return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) >= settings.wake_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}
/* The same, when the thread has written `bytes` more: it asks once for many records, since asking costs, too. */
STATIC_INLINE __u64 wake_after(struct thread_state *s, __u32 bytes) {
  s->reported_bytes += bytes;
  if (s->reported_bytes < settings.ask_bytes) return BPF_RB_NO_WAKEUP;
  s->reported_bytes = 0;
  return wake();
}

STATIC_INLINE void fill_head(struct cutrace_ebpf_head *h, const struct thread_state *s, __u16 kind, __u16 flags) {
  h->kind = kind;
  h->flags = flags;
  h->process = s->process;
  h->thread = s->thread;
  h->cpu = bpf_get_smp_processor_id();
}

STATIC_INLINE __u32 enclosing(const struct thread_state *s, __u32 at) {
  return at != 0 ? s->open[(at - 1) & (CUTRACE_EBPF_DEPTH - 1)].id : 0;
}

/* Where a probed function returns to: the kernel's trampoline in the process. 0: it is not known. */
STATIC_INLINE __u64 trampoline_of(struct task_struct *task) {
  struct xol_area *area = 0;
  if (!bpf_core_field_exists(area->vaddr)) return 0;
  struct mm_struct *mm = task->mm;
  if (mm) area = mm->uprobes_state.xol_area;
  return area ? area->vaddr : 0;
}

/* Whether a call was left by longjmp or an exception, where the stack ends at `sp`: its frame lies behind that end, or
 * something else stands where its return address was. */
STATIC_INLINE int is_left(const struct open_call *c, __u64 trampoline, __u64 sp) {
  __u64 word = 0;
  if (c->sp < sp) return 1;
  return trampoline != 0 && bpf_probe_read_user(&word, sizeof(word), (const void *)c->sp) == 0 && word != trampoline;
}

/* The innermost call that is open in the running thread, whose stack ends at `sp`. 0: none. */
STATIC_INLINE __u32 innermost(const struct thread_state *s, struct task_struct *task, __u64 sp) {
  __u32 at = s->depth;
  const __u64 trampoline = at != 0 ? trampoline_of(task) : 0;
  for (int i = 0; i < CUTRACE_EBPF_DEPTH; ++i) {
    if (at == 0 || !is_left(&s->open[(at - 1) & (CUTRACE_EBPF_DEPTH - 1)], trampoline, sp)) break;
    --at;
  }
  return enclosing(s, at);
}

STATIC_INLINE struct thread_state *state_of_current(void) {
  struct task_struct *task = bpf_get_current_task_btf();
  struct thread_state *s = bpf_task_storage_get(&threads, task, 0, 0);
  if (s) return s;
  __u32 process = process_of(task);
  if (!running_target(process)) return 0;
  s = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (!s) {
    count_loss(process, CUTRACE_EBPF_NO_MEMORY);
    return 0;
  }
  s->process = process;
  s->thread = thread_of(task);
  return s;
}

#endif
