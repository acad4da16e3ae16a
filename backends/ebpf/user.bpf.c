// SPDX-License-Identifier: Apache-2.0
// Probes that the user named. All functions of libraries share one pair of programs, and the cookie is the probe's
// number; each tracepoint and each function of the kernel has a copy of this object, with the maps of calls.bpf.c.
// Threads that are not traced are not reported.
#include "probe_state.bpf.h"

SEC(".rodata.own") volatile const struct cutrace_ebpf_user_probe own = {};

/* Where the stack of the program ends while it is in the kernel. */
STATIC_INLINE __u64 user_stack(void) {
  const struct pt_regs *regs = (const struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
  __u64 sp = 0;
  bpf_probe_read_kernel(&sp, sizeof(sp), &regs->rsp);
  return sp;
}

STATIC_INLINE struct thread_state *known_state(void) {
  return bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
}

STATIC_INLINE void take_registers(struct cutrace_ebpf_open_probe *p, const struct pt_regs *ctx) {
  p->words[0] = PT_REGS_PARM1(ctx);
  p->words[1] = PT_REGS_PARM2(ctx);
  p->words[2] = PT_REGS_PARM3(ctx);
  p->words[3] = PT_REGS_PARM4(ctx);
  p->words[4] = PT_REGS_PARM5(ctx);
  p->words[5] = ctx->r9;
  p->begin_ns = bpf_ktime_get_ns();
}

SEC("uprobe")
int probe_entry(struct pt_regs *ctx) {
  struct thread_state *s = state_of_current();
  if (!s) return 0;
  const __u64 sp = PT_REGS_SP(ctx);
  /* sp + 1: where this function is itself a recorded call, the call around it is wanted. */
  struct cutrace_ebpf_open_probe *p =
      probe_begins(s, bpf_get_attach_cookie(ctx), sp, innermost(s, bpf_get_current_task_btf(), sp + 1));
  if (p) take_registers(p, ctx);
  return 0;
}

SEC("uretprobe")
int probe_return(struct pt_regs *ctx) {
  struct thread_state *s = known_state();
  /* - 8: the return has popped its address, to which sp pointed at the entry. */
  if (s) probe_ends(s, bpf_get_attach_cookie(ctx), PT_REGS_SP(ctx) - 8, PT_REGS_RC(ctx));
  return 0;
}

SEC("kprobe")
int probe_kernel_entry(struct pt_regs *ctx) {
  struct thread_state *s = state_of_current();
  if (!s) return 0;
  struct cutrace_ebpf_open_probe *p =
      probe_begins(s, own.number, 0, innermost(s, bpf_get_current_task_btf(), user_stack()));
  if (p) take_registers(p, ctx);
  return 0;
}

SEC("kretprobe")
int probe_kernel_return(struct pt_regs *ctx) {
  struct thread_state *s = known_state();
  if (s) probe_ends(s, own.number, 0, PT_REGS_RC(ctx));
  return 0;
}

/* user_probes.cpp names the target of these two when it loads them, by its handler of these sections. */
SEC("cutrace_fentry")
int probe_enters(void *ctx) {
  struct thread_state *s = state_of_current();
  if (!s) return 0;
  struct cutrace_ebpf_open_probe *p =
      probe_begins(s, own.number, 0, innermost(s, bpf_get_current_task_btf(), user_stack()));
  if (!p) return 0;
#pragma unroll
  for (int i = 0; i < CUTRACE_EBPF_PROBE_WORDS; ++i) {
    __u64 word = 0;
    if (bpf_get_func_arg(ctx, i, &word) == 0) p->words[i] = word;
  }
  p->begin_ns = bpf_ktime_get_ns();
  return 0;
}

SEC("cutrace_fexit")
int probe_leaves(void *ctx) {
  struct thread_state *s = known_state();
  __u64 result = 0;
  if (!s) return 0;
  bpf_get_func_ret(ctx, &result);
  probe_ends(s, own.number, 0, result);
  return 0;
}

SEC("raw_tp")
int probe_tracepoint(struct bpf_raw_tracepoint_args *ctx) {
  struct thread_state *s = state_of_current();
  if (!s) return 0;
  const __u64 now = bpf_ktime_get_ns();
  struct cutrace_ebpf_probe *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
  if (!r) {
    count_loss(s->process, CUTRACE_EBPF_RING_FULL);
    return 0;
  }
  fill_head(&r->head, s, CUTRACE_EBPF_PROBE, 0);
  r->begin_ns = now;
  r->end_ns = now;
  r->result = 0;
  r->id = innermost(s, bpf_get_current_task_btf(), user_stack());
  r->number = own.number;
  /* The kernel refuses a program that reads more arguments than the tracepoint has. */
#pragma unroll
  for (int i = 0; i < CUTRACE_EBPF_PROBE_WORDS; ++i) r->words[i] = i < own.words ? ctx->args[i] : 0;
  bpf_ringbuf_submit(r, wake_after(s, sizeof(*r)));
  return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
