/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of user.bpf.c and their reader share: records of the probes that the user named. C and C++. */
#ifndef CUTRACE_EBPF_PROBE_RECORD_H
#define CUTRACE_EBPF_PROBE_RECORD_H

#include "call_record.h"

/* Beside those of enum cutrace_ebpf_kind. */
#define CUTRACE_EBPF_PROBE 32

#define CUTRACE_EBPF_PROBE_WORDS 12 /* as many as a tracepoint can have */
#define CUTRACE_EBPF_PROBE_DEPTH 8  /* open at once on a thread */

struct cutrace_ebpf_probe {
  struct cutrace_ebpf_head head;
  __u64 begin_ns;
  __u64 end_ns; /* of a tracepoint the same */
  __s64 result;
  __u32 id;     /* of the call in which it was, 0: none */
  __u32 number; /* from 1 on */
  __u64 words[CUTRACE_EBPF_PROBE_WORDS];
};

/* A probed function that a thread is in. */
struct cutrace_ebpf_open_probe {
  __u64 begin_ns;
  __u64 sp; /* of the program at the entry of its function; 0: a function of the kernel */
  __u32 id;
  __u32 number;
  __u64 words[CUTRACE_EBPF_PROBE_WORDS];
};

/* Fixed when a copy of the programs is loaded for one tracepoint or kernel function. Uprobes have a cookie instead. */
struct cutrace_ebpf_user_probe {
  __u32 number;
  __u32 words;
};

#endif
