// SPDX-License-Identifier: Apache-2.0
// Probed functions that a thread is in, and what is recorded of them when it leaves them.
#ifndef CUTRACE_EBPF_PROBE_STATE_H
#define CUTRACE_EBPF_PROBE_STATE_H

#include "thread_state.bpf.h"

#define PROBE_AT(s, at) (&(s)->probes[(at) & (CUTRACE_EBPF_PROBE_DEPTH - 1)])

static __noinline int record_probe(struct thread_state *s, __u32 at, __u64 now, __s64 result, __u32 flags) {
  if (!s) return 0;
  const struct cutrace_ebpf_open_probe *p = PROBE_AT(s, at);
  struct cutrace_ebpf_probe *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
  if (!r) {
    count_loss(s->process, CUTRACE_EBPF_RING_FULL);
    return 0;
  }
  fill_head(&r->head, s, CUTRACE_EBPF_PROBE, flags);
  r->begin_ns = p->begin_ns;
  r->end_ns = now;
  r->result = result;
  r->id = p->id;
  r->number = p->number;
#pragma unroll
  for (int i = 0; i < CUTRACE_EBPF_PROBE_WORDS; ++i) r->words[i] = p->words[i];
  bpf_ringbuf_submit(r, wake_after(s, sizeof(*r)));
  return 0;
}

/* A place for the probe that begins, its words 0 and its time not yet set; null where too many are open. `sp` as in
 * struct cutrace_ebpf_open_probe. */
STATIC_INLINE struct cutrace_ebpf_open_probe *probe_begins(struct thread_state *s, __u32 number, __u64 sp, __u32 id) {
  const __u64 now = bpf_ktime_get_ns();
  for (int i = 0; i < CUTRACE_EBPF_PROBE_DEPTH; ++i) { /* left by longjmp or an exception, as in call_begins */
    const __u32 depth = s->probe_depth;
    if (depth == 0 || sp == 0) break;
    const struct cutrace_ebpf_open_probe *top = PROBE_AT(s, depth - 1);
    if (top->sp == 0 || top->sp > sp || (top->sp == sp && top->number != number)) break;
    s->probe_skipped = 0;
    s->probe_depth = depth - 1;
    record_probe(s, depth - 1, now, 0, CUTRACE_EBPF_LEFT);
  }
  const __u32 depth = s->probe_depth;
  if (depth >= CUTRACE_EBPF_PROBE_DEPTH) {
    ++s->probe_skipped;
    count_loss(s->process, CUTRACE_EBPF_TOO_DEEP);
    return 0;
  }
  struct cutrace_ebpf_open_probe *p = PROBE_AT(s, depth);
  p->sp = sp;
  p->id = id;
  p->number = number;
  __builtin_memset(p->words, 0, sizeof(p->words));
  s->probe_depth = depth + 1;
  return p;
}

STATIC_INLINE void probe_ends(struct thread_state *s, __u32 number, __u64 sp, __s64 result) {
  const __u64 now = bpf_ktime_get_ns();
  const __u32 depth = s->probe_depth;
  __u32 at = CUTRACE_EBPF_PROBE_DEPTH;
  for (int i = 0; i < CUTRACE_EBPF_PROBE_DEPTH; ++i) {
    if (i >= depth) break;
    const struct cutrace_ebpf_open_probe *one = PROBE_AT(s, depth - 1 - i);
    if (one->number != number || one->sp != sp) continue;
    at = depth - 1 - i;
    break;
  }
  if (at >= CUTRACE_EBPF_PROBE_DEPTH) {
    if (s->probe_skipped != 0)
      --s->probe_skipped;
    else
      count_loss(s->process, CUTRACE_EBPF_NO_ENTRY);
    return;
  }
  for (int i = 0; i < CUTRACE_EBPF_PROBE_DEPTH; ++i) {
    const __u32 top = s->probe_depth;
    if (top <= at + 1) break;
    s->probe_skipped = 0;
    s->probe_depth = top - 1;
    record_probe(s, top - 1, now, 0, CUTRACE_EBPF_LEFT);
  }
  s->probe_depth = at;
  record_probe(s, at, now, result, 0);
}

/* The thread ends, or executes another program. */
STATIC_INLINE void leave_probes(struct thread_state *s, __u64 now) {
  for (int i = 0; i < CUTRACE_EBPF_PROBE_DEPTH; ++i) {
    const __u32 depth = s->probe_depth;
    if (depth == 0) break;
    s->probe_depth = depth - 1;
    record_probe(s, depth - 1, now, 0, CUTRACE_EBPF_LEFT);
  }
  s->probe_skipped = 0;
}

#endif
