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
/* Of what the kernel does (kernel.bpf.c). */
#define CUTRACE_EBPF_BLOCK 64           /* bytes of an ioctl's parameter block, as --method ioctl keeps them */
#define CUTRACE_EBPF_CONTROL 0xc020462a /* NV_ESC_RM_CONTROL with its 32 bytes: read once, after the call */
#define CUTRACE_EBPF_NODES 16
#define CUTRACE_EBPF_MODULE_FUNCTIONS 8

enum cutrace_ebpf_kind {
  CUTRACE_EBPF_CALL = 1,
  CUTRACE_EBPF_LONG_CALL = 2, /* with stack words and what pointers lead to */
  CUTRACE_EBPF_THREAD = 3,    /* has this name from here on */
  CUTRACE_EBPF_FUNCTION = 4,  /* cuGetProcAddress handed out a pointer */
  CUTRACE_EBPF_IOCTL = 5,
  CUTRACE_EBPF_SPAN = 6, /* something else that the kernel did: enum cutrace_ebpf_what */
  CUTRACE_EBPF_XID = 7,
  CUTRACE_EBPF_TRANSFER = 8, /* an ioctl whose block points to another one */
};

/* What a span is. Process 0: it belongs to no single process and goes into every trace. */
enum cutrace_ebpf_what {
  CUTRACE_EBPF_SWITCHED_OUT = 1, /* value: the thread's state, as the kernel has it, or CUTRACE_EBPF_PREEMPTED */
  CUTRACE_EBPF_INTERRUPT = 2,    /* value: its number; result: of the handler; text: its name */
  CUTRACE_EBPF_FAULT = 3,        /* value: address; result: the processor's error code, bits */
  CUTRACE_EBPF_MODULE = 4,       /* value: index of the module function that is probed; result: what it returned */
};
#define CUTRACE_EBPF_PREEMPTED 0x80000000u

enum cutrace_ebpf_flags {
  CUTRACE_EBPF_LEFT = 1, /* never returned: longjmp, exception, end of the thread */
};

enum cutrace_ebpf_loss {
  CUTRACE_EBPF_RING_FULL = 0,
  CUTRACE_EBPF_TOO_DEEP = 1,
  CUTRACE_EBPF_NO_MEMORY = 2, /* for the state of a thread, or for a child, which is counted with its parent */
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
  __u32 joined; /* the number that a tracer inside of the process has for it, 0: none */
  __u32 spare;
  __u64 words[CUTRACE_EBPF_REGISTERS];
};

struct cutrace_ebpf_long_call {
  struct cutrace_ebpf_call call;
  __u64 stack[CUTRACE_EBPF_STACK_WORDS];
  __u8 block_bytes[8]; /* read of each of the two blocks after the call; 0: none, or the call failed */
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

/* Followed by the parameter block before and after the ioctl, CUTRACE_EBPF_BLOCK bytes each; in a transfer then by the
 * block that it points to, before and after. */
struct cutrace_ebpf_ioctl {
  struct cutrace_ebpf_head head;
  __u64 begin_ns;
  __u64 end_ns;
  __s64 result;
  __u32 id;     /* of the call in which it was made, 0: none */
  __u32 device; /* as the kernel has it: major << 20 | minor */
  __u32 request;
  __u32 status;
  __u8 status_read;
  __u8 bytes[4]; /* of each block that were read */
  __u8 spare[3];
};

struct cutrace_ebpf_span {
  struct cutrace_ebpf_head head;
  __u64 begin_ns;
  __u64 end_ns; /* the same: an instant */
  __u64 value;
  __s64 result;
  __u32 id;
  __u32 what;
  char text[16];
};

struct cutrace_ebpf_xid {
  struct cutrace_ebpf_head head;
  __u64 at_ns;
  __u32 number;
  __u32 spare;
  char device[16];
  char text[160];
};

/* Device nodes: those with (number & mask) == device. */
struct cutrace_ebpf_node {
  __u32 device;
  __u32 mask;
  __u32 is_uvm;
};

/* What the request word of an ioctl does not say of its parameter block. Key: is_uvm << 32 | number. */
struct cutrace_ebpf_block {
  __u16 bytes;  /* size of a block of UVM, whose request words have none */
  __u16 status; /* offset of a status beyond what is copied, 0: there is none */
  __u16 least;  /* bytes that a block with this status must have */
  __u16 spare;
};

/* Fixed when the programs of kernel.bpf.c are loaded. */
struct cutrace_ebpf_kernel {
  struct cutrace_ebpf_node nodes[CUTRACE_EBPF_NODES];
  char interrupt[16]; /* what the names of handlers begin with */
  __u32 function;     /* which one module_enters and module_leaves are put on */
};

/* What cannot be counted for one process. */
struct cutrace_ebpf_totals {
  __u64 lost[CUTRACE_EBPF_LOSSES];
  __u64 faults_unreported; /* page faults of which it is not known what they touched */
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
  __u64 wake_bytes;      /* the reader is woken when so much waits for it */
  __u32 own_namespace;   /* the reader's pid namespace, by st_ino of /proc/self/ns/pid; 0: the machine's first one */
  __u32 follow_children; /* children of traced processes are traced */
  __u32 ask_bytes;       /* a thread asks how much waits when it has written so much */
  __u32 spare;
};

enum cutrace_ebpf_end {
  CUTRACE_EBPF_RUNS = 0,
  CUTRACE_EBPF_ENDED = 1,
  CUTRACE_EBPF_GAINED_RIGHTS = 2, /* it executed a program with more rights than it had (setuid): not traced */
};

/* A traced process. */
struct cutrace_ebpf_target {
  __u64 lost[CUTRACE_EBPF_LOSSES];
  __u32 ended;  /* enum cutrace_ebpf_end */
  __u32 parent; /* 0: traced from the beginning */
};

#endif
