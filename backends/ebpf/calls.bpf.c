// SPDX-License-Identifier: Apache-2.0
// The programs in the kernel: entry and return of a probed function become one record. Compiled when cutrace is built;
// where the fields of the kernel's structures lie is put in when it is loaded (CO-RE).
//
// Each thread has a stack of its open calls in task storage. A call that is left by longjmp or an exception never
// returns; it is taken off when something further out happens, which the stack pointer shows.
#include "probe_state.bpf.h"
#include "thread_state.bpf.h"

#define ID_BLOCK 1024
#define NAME_PERIOD_NS 250000000ull

/* Only in kernels that have uprobe sessions. */
extern bool bpf_session_is_return(void) __ksym __weak;

__u32 ids_taken = 0;

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, CUTRACE_EBPF_FUNCTIONS);
  __type(key, __u32);
  __type(value, struct cutrace_ebpf_plan);
} plans SEC(".maps");

STATIC_INLINE void fill_call(struct cutrace_ebpf_call *r, const struct open_call *c, __u32 parent, __u64 now,
                             __s32 result) {
  r->entry_ns = c->entry_ns;
  r->exit_ns = now;
  r->id = c->id;
  r->parent = parent;
  r->function = c->function;
  r->result = result;
  r->joined = c->joined;
  r->spare = 0;
#pragma unroll
  for (int i = 0; i < CUTRACE_EBPF_REGISTERS; ++i) r->words[i] = c->words[i];
}

/* A call that will not return. */
static __noinline int record_left(struct thread_state *s, __u32 at, __u64 now) {
  if (!s) return 0;
  const struct open_call *c = &s->open[at & (CUTRACE_EBPF_DEPTH - 1)];
  struct cutrace_ebpf_call *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
  if (!r) {
    count_loss(s->process, CUTRACE_EBPF_RING_FULL);
    return 0;
  }
  fill_head(&r->head, s, CUTRACE_EBPF_CALL, CUTRACE_EBPF_LEFT);
  fill_call(r, c, enclosing(s, at), now, 0);
  bpf_ringbuf_submit(r, wake_after(s, sizeof(*r)));
  return 0;
}

/* Copies `bytes` of the program's memory, none if that is more than `limit`. Returns how many were copied. */
STATIC_INLINE __u8 read_block(void *to, __u32 limit, const struct open_call *c, __u8 word, __u16 begin, __u8 bytes) {
  __u64 size = bytes;
  if (size == 0) return 0;
  KEEP(size);
  if (size > limit) return 0;
  const __u64 pointer = c->words[word & (WORDS - 1)];
  if (pointer == 0 || bpf_probe_read_user(to, size, (const void *)(pointer + begin)) != 0) return 0;
  return bytes;
}

STATIC_INLINE int record_long(struct thread_state *s, const struct open_call *c, __u32 at, __u64 now, __s32 result,
                              const struct cutrace_ebpf_plan *plan) {
  struct cutrace_ebpf_long_call *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
  if (!r) return -1;
  fill_head(&r->call.head, s, CUTRACE_EBPF_LONG_CALL, 0);
  fill_call(&r->call, c, enclosing(s, at), now, result);
#pragma unroll
  for (int i = 0; i < CUTRACE_EBPF_STACK_WORDS; ++i) r->stack[i] = c->words[CUTRACE_EBPF_REGISTERS + i];
  __builtin_memset(r->block_bytes, 0, sizeof(r->block_bytes) + sizeof(r->first) + sizeof(r->second));
  if (result == 0) {
    r->block_bytes[0] =
        read_block(r->first, sizeof(r->first), c, plan->block_word[0], plan->block_begin[0], plan->block_bytes[0]);
    r->block_bytes[1] =
        read_block(r->second, sizeof(r->second), c, plan->block_word[1], plan->block_begin[1], plan->block_bytes[1]);
  }
  bpf_ringbuf_submit(r, wake_after(s, sizeof(*r)));
  return 0;
}

STATIC_INLINE int record_short(struct thread_state *s, const struct open_call *c, __u32 at, __u64 now, __s32 result) {
  struct cutrace_ebpf_call *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
  if (!r) return -1;
  fill_head(&r->head, s, CUTRACE_EBPF_CALL, 0);
  fill_call(r, c, enclosing(s, at), now, result);
  bpf_ringbuf_submit(r, wake_after(s, sizeof(*r)));
  return 0;
}

/* cuGetProcAddress(symbol, pfn, ...) has answered. A record that finds no room costs no call, so it is not counted. */
static __noinline int record_function(const struct thread_state *s, const struct open_call *c) {
  if (!s || !c) return 0;
  struct cutrace_ebpf_function *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
  if (!r) return 0;
  fill_head(&r->head, s, CUTRACE_EBPF_FUNCTION, 0);
  r->address = 0;
  if (bpf_probe_read_user(&r->address, sizeof(r->address), (const void *)c->words[1]) != 0 || r->address == 0 ||
      bpf_probe_read_user_str(r->name, sizeof(r->name), (const void *)c->words[0]) <= 1) {
    bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
    return 0;
  }
  bpf_ringbuf_submit(r, BPF_RB_FORCE_WAKEUP); /* at once: it may be called next */
  return 0;
}

/* Asked from time to time: threads are named after they were made. */
static __noinline int record_name(struct thread_state *s, __u64 now) {
  __u64 name[2] = {};
  if (!s) return 0;
  s->named_ns = now;
  bpf_get_current_comm(name, sizeof(name));
  if (name[0] == s->name[0] && name[1] == s->name[1]) return 0;
  struct cutrace_ebpf_thread *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
  if (!r) return 0;
  fill_head(&r->head, s, CUTRACE_EBPF_THREAD, 0);
  __builtin_memcpy(r->name, name, sizeof(r->name));
  bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
  s->name[0] = name[0];
  s->name[1] = name[1];
  return 0;
}

/* 1: nothing is to be done when it returns. */
STATIC_INLINE int call_begins(struct pt_regs *ctx) {
  struct thread_state *s = state_of_current();
  if (!s) return 1;
  const __u64 now = bpf_ktime_get_ns();
  const __u64 sp = PT_REGS_SP(ctx);
  __u32 function = bpf_get_attach_cookie(ctx);
  if (now - s->named_ns > NAME_PERIOD_NS) record_name(s, now);
  const __u64 trampoline = s->depth != 0 ? trampoline_of(bpf_get_current_task_btf()) : 0;
  /* A function that ends in a jump to another one has the same stack pointer, and is not left. */
  for (int i = 0; i < CUTRACE_EBPF_DEPTH; ++i) {
    const __u32 depth = s->depth;
    if (depth == 0) break;
    const struct open_call *top = &s->open[(depth - 1) & (CUTRACE_EBPF_DEPTH - 1)];
    if (!is_left(top, trampoline, sp) && (top->sp > sp || top->function != function)) break;
    s->skipped = 0;
    s->depth = depth - 1;
    record_left(s, depth - 1, now);
  }
  const __u32 depth = s->depth;
  if (depth >= CUTRACE_EBPF_DEPTH) {
    ++s->skipped;
    count_loss(s->process, CUTRACE_EBPF_TOO_DEEP);
    return 1;
  }
  struct open_call *c = &s->open[depth & (CUTRACE_EBPF_DEPTH - 1)];
  if (s->ids_left == 0) {
    s->next_id = __sync_fetch_and_add(&ids_taken, ID_BLOCK) + 1;
    s->ids_left = ID_BLOCK - 1;
  }
  c->id = s->next_id++;
  --s->ids_left;
  c->sp = sp;
  c->function = function;
  c->joined = 0;
  c->words[0] = PT_REGS_PARM1(ctx);
  c->words[1] = PT_REGS_PARM2(ctx);
  c->words[2] = PT_REGS_PARM3(ctx);
  c->words[3] = PT_REGS_PARM4(ctx);
  c->words[4] = PT_REGS_PARM5(ctx);
  c->words[5] = ctx->r9;
  const struct cutrace_ebpf_plan *plan = bpf_map_lookup_elem(&plans, &function);
  __u32 stacked = plan ? plan->stack_words : 0;
  if (stacked != 0) {
    if (stacked > CUTRACE_EBPF_STACK_WORDS) stacked = CUTRACE_EBPF_STACK_WORDS;
    bpf_probe_read_user(&c->words[CUTRACE_EBPF_REGISTERS], stacked * 8, (const void *)(sp + 8));
  }
  s->depth = depth + 1;
  c->entry_ns = bpf_ktime_get_ns();
  return 0;
}

STATIC_INLINE int call_ends(struct pt_regs *ctx) {
  const __u64 now = bpf_ktime_get_ns();
  struct task_struct *task = bpf_get_current_task_btf();
  struct thread_state *s = bpf_task_storage_get(&threads, task, 0, 0);
  if (!s) { /* open when the probes came, or the state found no memory, which has been counted */
    count_loss(process_of(task), CUTRACE_EBPF_NO_ENTRY);
    return 0;
  }
  const __u64 sp = PT_REGS_SP(ctx) - 8; /* where the return address was */
  const __u32 function = bpf_get_attach_cookie(ctx);
  const __u32 depth = s->depth;
  __u32 at = CUTRACE_EBPF_DEPTH;
  for (int i = 0; i < CUTRACE_EBPF_DEPTH; ++i) {
    if (i >= depth) break;
    const __u32 one = (depth - 1 - i) & (CUTRACE_EBPF_DEPTH - 1);
    if (s->open[one].sp == sp && s->open[one].function == function) {
      at = one;
      break;
    }
  }
  if (at == CUTRACE_EBPF_DEPTH) {
    if (s->skipped != 0)
      --s->skipped;
    else
      count_loss(s->process, CUTRACE_EBPF_NO_ENTRY);
    return 0;
  }
  for (int i = 0; i < CUTRACE_EBPF_DEPTH; ++i) {
    const __u32 top = s->depth;
    if (top <= at + 1) break;
    s->skipped = 0;
    s->depth = top - 1;
    record_left(s, top - 1, now);
  }
  s->depth = at;
  struct open_call *c = &s->open[at & (CUTRACE_EBPF_DEPTH - 1)];
  const __s32 result = PT_REGS_RC(ctx);
  __u32 key = function;
  const struct cutrace_ebpf_plan *plan = bpf_map_lookup_elem(&plans, &key);
  const int is_long = plan && (plan->stack_words | plan->block_bytes[0]);
  const int failed = is_long ? record_long(s, c, at, now, result, plan) : record_short(s, c, at, now, result);
  if (failed) count_loss(s->process, CUTRACE_EBPF_RING_FULL);
  if (plan && plan->gives_function && result == 0) record_function(s, c);
  return 0;
}

/* One link for both, where the kernel has sessions: the answer at entry decides whether the return is seen. */
SEC("uprobe")
int call_session(struct pt_regs *ctx) { return bpf_session_is_return() ? call_ends(ctx) : call_begins(ctx); }

SEC("uprobe")
int call_entry(struct pt_regs *ctx) {
  call_begins(ctx);
  return 0;
}

SEC("uretprobe")
int call_return(struct pt_regs *ctx) { return call_ends(ctx); }

/* A tracer inside of the process (CUPTI's callbacks in our injected library) passes its number of the innermost open
 * call. If that call has a number already, the new one belongs to a call made inside of it that has no probe. */
SEC("uprobe")
int call_joins(struct pt_regs *ctx) {
  struct thread_state *s = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
  if (!s) return 0;
  const __u32 depth = s->depth;
  if (depth == 0 || s->skipped != 0) return 0;
  struct open_call *c = &s->open[(depth - 1) & (CUTRACE_EBPF_DEPTH - 1)];
  if (c->joined == 0 && c->sp > PT_REGS_SP(ctx)) c->joined = (__u32)PT_REGS_PARM1(ctx);
  return 0;
}

/* For measuring: what a probe costs by itself. */
SEC("uprobe")
int empty_entry(struct pt_regs *ctx) { return 0; }

SEC("uretprobe")
int empty_return(struct pt_regs *ctx) { return 0; }

/* A child of a traced process becomes a traced process before it runs. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_forks, struct task_struct *parent, struct task_struct *child) {
  if (!settings.follow_children || child->pid != child->tgid) return 0;
  struct cutrace_ebpf_target begin = {};
  begin.parent = process_of(parent);
  if (begin.parent == 0 || !running_target(begin.parent)) return 0;
  __u32 process = process_of(child);
  if (process != 0 && bpf_map_update_elem(&targets, &process, &begin, BPF_ANY) != 0)
    count_loss(begin.parent, CUTRACE_EBPF_NO_MEMORY);
  return 0;
}

STATIC_INLINE void leave_all(struct thread_state *s) {
  const __u64 now = bpf_ktime_get_ns();
  leave_probes(s, now);
  for (int i = 0; i < CUTRACE_EBPF_DEPTH; ++i) {
    const __u32 depth = s->depth;
    if (depth == 0) break;
    s->depth = depth - 1;
    record_left(s, depth - 1, now);
  }
  s->skipped = 0;
  if (s->ioctl.inside) count_loss(s->process, CUTRACE_EBPF_NO_ENTRY);
  s->ioctl.inside = 0;
  s->off_ns = 0;
}

/* A thread ends, and with the last one its process: what it was in will not return. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_exits, struct task_struct *task) {
  struct thread_state *s = bpf_task_storage_get(&threads, task, 0, 0);
  if (s) leave_all(s);
  if (BPF_CORE_READ(task, signal, live.counter) != 0) return 0;
  __u32 process = process_of(task);
  struct cutrace_ebpf_target *t = running_target(process);
  if (t) t->ended = CUTRACE_EBPF_ENDED;
  return 0;
}

/* Another program: its calls are not inside of those of the one before, and a thread other than the main one has become
 * that, with its number; so the state begins anew. One with more rights is not followed: what it does is not the user's
 * to see. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_executes, struct task_struct *task, int old_pid, struct linux_binprm *program) {
  struct thread_state *s = bpf_task_storage_get(&threads, task, 0, 0);
  if (s) leave_all(s);
  bpf_task_storage_delete(&threads, task);
  if (!BPF_CORE_READ_BITFIELD(program, secureexec)) return 0;
  struct cutrace_ebpf_target *t = running_target(process_of(task));
  if (t) t->ended = CUTRACE_EBPF_GAINED_RIGHTS;
  return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
