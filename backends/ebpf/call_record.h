/* SPDX-License-Identifier: Apache-2.0 */
/* What the BPF programs and their reader share: records of the ring buffer, and the values of the maps. C and C++.
 * Times are nanoseconds of CLOCK_MONOTONIC; processes and threads have the numbers of the reader's pid namespace. */
#ifndef CUTRACE_EBPF_CALL_RECORD_H
#define CUTRACE_EBPF_CALL_RECORD_H

#include <linux/types.h>

/* Functions are numbered from 1 on: the number is the cookie of their probes and the index of their plan. */
#define CUTRACE_EBPF_FUNCTIONS 4096
#define CUTRACE_EBPF_REGISTERS 6
#define CUTRACE_EBPF_STACK_WORDS 8
/* Calls that are open at once on a thread, one in the other. */
#define CUTRACE_EBPF_DEPTH 16
#define CUTRACE_EBPF_FIRST_BLOCK 64
#define CUTRACE_EBPF_SECOND_BLOCK 8

enum cutrace_ebpf_kind {
  CUTRACE_EBPF_CALL = 1,
  CUTRACE_EBPF_LONG_CALL = 2, /* with stack words and what pointers lead to */
  CUTRACE_EBPF_THREAD = 3,    /* has this name from here on */
  CUTRACE_EBPF_FUNCTION = 4,  /* cuGetProcAddress handed out a pointer */
};

enum cutrace_ebpf_flags {
  CUTRACE_EBPF_LEFT = 1, /* never returned: longjmp, exception, end of the thread */
};

enum cutrace_ebpf_loss {
  CUTRACE_EBPF_RING_FULL = 0,
  CUTRACE_EBPF_TOO_DEEP = 1,
  CUTRACE_EBPF_NO_MEMORY = 2, /* for the state of a thread */
  CUTRACE_EBPF_NO_ENTRY = 3,  /* returned, and its entry was not seen: it was open when the probes came */
  CUTRACE_EBPF_LOSSES = 4
};

struct cutrace_ebpf_head {
  __u16 kind;
  __u16 flags;
  __u32 process;
  __u32 thread;
  __u32 cpu;
};

struct cutrace_ebpf_call {
  struct cutrace_ebpf_head head;
  __u64 entry_ns;
  __u64 exit_ns;
  __u32 id;     /* unique in the trace, 0: none */
  __u32 parent; /* id of the call in which it was made */
  __u32 function;
  __s32 result;
  __u32 joined; /* the number that a tracer inside of the process has for it, 0: none told */
  __u32 spare;
  __u64 words[CUTRACE_EBPF_REGISTERS];
};

struct cutrace_ebpf_long_call {
  struct cutrace_ebpf_call call;
  __u64 stack[CUTRACE_EBPF_STACK_WORDS];
  __u8 block_bytes[8]; /* of the two blocks that were read after the call; 0: not, or it failed */
  __u8 first[CUTRACE_EBPF_FIRST_BLOCK];
  __u8 second[CUTRACE_EBPF_SECOND_BLOCK];
};

struct cutrace_ebpf_thread {
  struct cutrace_ebpf_head head;
  char name[16];
};

struct cutrace_ebpf_function {
  struct cutrace_ebpf_head head;
  __u64 address;
  char name[80];
};

/* What is read of a function's call beside the registers. Words count the registers first, then those of the stack. */
struct cutrace_ebpf_plan {
  __u8 stack_words;
  __u8 gives_function;
  __u8 block_word[2]; /* which word is the pointer */
  __u16 block_begin[2];
  __u8 block_bytes[2]; /* 0: no block */
  __u8 spare[6];
};

/* Fixed when the programs are loaded. */
struct cutrace_ebpf_settings {
  __u64 namespace_device; /* of the reader's pid namespace: st_dev of /proc/self/ns/pid */
  __u64 wake_bytes;       /* the reader is woken when so much waits for it */
  __u32 own_namespace;    /* its st_ino, 0: it is the machine's first one */
  __u32 follow_children;  /* children of traced processes are traced */
};

/* A traced process. */
struct cutrace_ebpf_target {
  __u64 lost[CUTRACE_EBPF_LOSSES];
  __u32 ended;
  __u32 parent; /* 0: traced from the beginning */
};

#endif
