// SPDX-License-Identifier: Apache-2.0
// What the kernel does for a traced thread, and in which call of the driver: ioctls on devices of NVIDIA, waiting,
// interrupts, errors of the GPU, faults on managed memory. Each kind is loaded by itself, with the maps of calls.bpf.c,
// so that one that this kernel refuses leaves the others as they are.
//
// Tracepoints alone, with the kernel's own types; functions of the driver's modules only where the kernel permits it.
#include "thread_state.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct irqaction {
  const char *name;
};
struct kobject {
  const char *name;
};
struct device {
  struct kobject kobj;
};
struct pci_dev {
  struct device dev;
};
struct vm_area_struct {
  struct file *vm_file;
};
#pragma clang attribute pop

SEC(".rodata.kernel") volatile const struct cutrace_ebpf_kernel kernel = {};

#define CHARACTER_DEVICE 0020000
#define KIND_OF_FILE 0170000
#define COMPATIBLE 2 /* TS_COMPAT: a system call of 32 bits */
#define SYS_IOCTL 16
#define SYS_SCHED_YIELD 24
#define TRANSFER 0xd3 /* NV_ESC_IOCTL_XFER_CMD */
#define CONTROL_BYTES 32

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 512);
  __type(key, __u64);
  __type(value, struct cutrace_ebpf_block);
} blocks SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct cutrace_ebpf_totals);
} totals SEC(".maps");

struct open_interrupt {
  __u64 begin_ns;
  __u64 action;
};
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct open_interrupt);
} interrupts SEC(".maps");

STATIC_INLINE struct cutrace_ebpf_totals *all_totals(void) {
  const __u32 first = 0;
  return bpf_map_lookup_elem(&totals, &first);
}
STATIC_INLINE void count_for_all(__u32 cause) {
  struct cutrace_ebpf_totals *t = all_totals();
  if (t && cause < CUTRACE_EBPF_LOSSES) __sync_fetch_and_add(&t->lost[cause], 1);
}

/* Of which kind a device is: 0 none of NVIDIA's, 1 one, 2 one of UVM. */
STATIC_INLINE __u32 node_of(__u32 device) {
  for (int i = 0; i < CUTRACE_EBPF_NODES; ++i) {
    if (kernel.nodes[i].mask == 0) break;
    if ((device & kernel.nodes[i].mask) == kernel.nodes[i].device) return 1 + kernel.nodes[i].is_uvm;
  }
  return 0;
}

/* The device of a file, 0: it is no character device. */
STATIC_INLINE __u32 device_of(struct file *file) {
  struct inode *inode = BPF_CORE_READ(file, f_inode);
  return (BPF_CORE_READ(inode, i_mode) & KIND_OF_FILE) == CHARACTER_DEVICE ? BPF_CORE_READ(inode, i_rdev) : 0;
}

/* Newer kernels can read a structure at any address without a helper. Only a program that does so may name that
 * function: kernels without it, and some that have it, refuse every program that names it, called or not. */
extern void *bpf_rdonly_cast(const void *at, __u32 type) __ksym __weak;
#define AS(type, at) ((struct type *)bpf_rdonly_cast(at, bpf_core_type_id_kernel(struct type)))

/* The device of the file that `slot` points to, 0: it points to none, or to no character device. */
STATIC_INLINE __u32 device_in(struct file **slot, const int by_helper) {
  struct file *file = 0;
  if (by_helper) return bpf_probe_read_kernel(&file, sizeof(file), slot) == 0 && file ? device_of(file) : 0;
  /* A pointer alone has no type to be read as; so it is read as a field that has the same. */
  file = AS(vm_area_struct, (const char *)slot - bpf_core_field_offset(struct vm_area_struct, vm_file))->vm_file;
  if (!file) return 0;
  struct inode *inode = file->f_inode;
  return (inode->i_mode & KIND_OF_FILE) == CHARACTER_DEVICE ? inode->i_rdev : 0;
}

/* Bytes that were read, CUTRACE_EBPF_BLOCK at the most: all, those up to the end of the page, or none. */
STATIC_INLINE __u32 read_user(void *to, __u64 address, __u64 bytes) {
  if (address == 0) return 0;
  __u64 size = bytes > CUTRACE_EBPF_BLOCK ? CUTRACE_EBPF_BLOCK : bytes;
  KEEP(size);
  if (size == 0 || size > CUTRACE_EBPF_BLOCK) return 0;
  if (bpf_probe_read_user(to, size, (const void *)address) == 0) return size;
  __u64 rest = 4096 - (address & 4095);
  if (rest >= size) return 0;
  KEEP(rest);
  if (rest == 0 || rest > CUTRACE_EBPF_BLOCK) return 0;
  return bpf_probe_read_user(to, rest, (const void *)address) == 0 ? rest : 0;
}

/* The blocks as they are before the call, and where its status will be. */
STATIC_INLINE void read_before(struct open_ioctl *o, int is_uvm) {
  __u64 key = is_uvm ? (__u64)1 << 32 | o->request : o->request & 0xff;
  __u32 bytes = o->request >> 16 & 0x3fff;
  const struct cutrace_ebpf_block *known = 0;
  /* Of a block that is copied whole nothing need be known: its status is in it. */
  if (is_uvm || bytes == 0 || bytes > CUTRACE_EBPF_BLOCK) known = bpf_map_lookup_elem(&blocks, &key);
  if (is_uvm) bytes = known ? known->bytes : CUTRACE_EBPF_BLOCK;
  o->bytes = o->entry_bytes = read_user(o->entry, o->parameter, bytes);
  __u64 address = o->parameter;
  if (!is_uvm && (o->request >> 8 & 0xff) == 'F' && (o->request & 0xff) == TRANSFER && o->entry_bytes >= 16) {
    key = *(__u32 *)o->entry;
    bytes = *(__u32 *)(o->entry + 4);
    address = o->inner = *(__u64 *)(o->entry + 8);
    o->inner_bytes = read_user(o->inner_entry, address, bytes);
    known = bpf_map_lookup_elem(&blocks, &key);
  }
  if (known && known->status != 0 && address != 0 && (is_uvm || bytes == 0 || bytes >= known->least))
    o->status = address + known->status;
}

STATIC_INLINE void ioctl_begins(struct pt_regs *regs, const int by_helper) {
  struct task_struct *task = bpf_get_current_task_btf();
  if (task->thread_info.status & COMPATIBLE) return;
  const __u32 fd = regs->rdi;
  struct files_struct *opened = task->files;
  if (!opened) return;
  struct fdtable *table = opened->fdt;
  if (fd >= table->max_fds) return;
  struct file **files = table->fd;
  const __u32 device = device_in(files + fd, by_helper);
  const __u32 node = device != 0 ? node_of(device) : 0;
  if (node == 0) return;
  struct thread_state *s = state_of_current();
  if (!s) return;
  struct open_ioctl *o = &s->ioctl;
  o->device = device;
  o->request = regs->rsi;
  o->parameter = regs->rdx;
  o->id = innermost(s, task, regs->rsp);
  o->inner = 0;
  o->status = 0;
  o->entry_bytes = o->inner_bytes = 0;
  /* In the block of a control command the driver changes nothing but the status (NVOS54_PARAMETERS, which
   * _nv04ControlWithSecInfo of its open modules takes). So it is read once, after the call. */
  if (o->request == CUTRACE_EBPF_CONTROL && node != 2)
    o->bytes = CONTROL_BYTES;
  else
    read_before(o, node == 2);
  o->inside = 1;
  o->begin_ns = bpf_ktime_get_ns();
}

/* `kind`: CUTRACE_EBPF_IOCTL or _TRANSFER, a constant. */
STATIC_INLINE void record_ioctl(struct thread_state *s, __u64 now, __s64 result, const __u16 kind) {
  const __u32 room = CUTRACE_EBPF_BLOCK, blocks = kind == CUTRACE_EBPF_TRANSFER ? 4 : 2;
  const struct open_ioctl *o = &s->ioctl;
  struct cutrace_ebpf_ioctl *r = bpf_ringbuf_reserve(&ring, sizeof(*r) + blocks * room, 0);
  if (!r) {
    count_loss(s->process, CUTRACE_EBPF_RING_FULL);
    return;
  }
  __u8 *const block = (__u8 *)(r + 1);
  fill_head(&r->head, s, kind, 0);
  r->begin_ns = o->begin_ns;
  r->end_ns = now;
  r->result = result;
  r->id = o->id;
  r->device = o->device;
  r->request = o->request;
  r->bytes[0] = o->entry_bytes;
  __builtin_memcpy(block, o->entry, room);
  r->bytes[1] = read_user(block + room, o->parameter, o->bytes);
  r->bytes[2] = r->bytes[3] = 0;
  if (blocks == 4) {
    r->bytes[2] = o->inner_bytes;
    __builtin_memcpy(block + 2 * room, o->inner_entry, room);
    r->bytes[3] = read_user(block + 3 * room, o->inner, o->inner_bytes);
  }
  r->status = 0;
  r->status_read =
      o->status != 0 && bpf_probe_read_user(&r->status, sizeof(r->status), (const void *)o->status) == 0 ? 1 : 0;
  bpf_ringbuf_submit(r, wake_after(s, sizeof(*r) + blocks * room));
}

STATIC_INLINE void ioctl_ends(struct thread_state *s, __s64 result) {
  const __u64 now = bpf_ktime_get_ns();
  s->ioctl.inside = 0;
  if (s->ioctl.inner_bytes != 0)
    record_ioctl(s, now, result, CUTRACE_EBPF_TRANSFER);
  else
    record_ioctl(s, now, result, CUTRACE_EBPF_IOCTL);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(system_call_begins, struct pt_regs *regs, long number) {
  if (number == SYS_IOCTL) ioctl_begins(regs, 0);
  return 0;
}
/* In place of system_call_begins, where the kernel refuses that one. */
SEC("tp_btf/sys_enter")
int BPF_PROG(system_call_begins_by_helper, struct pt_regs *regs, long number) {
  if (number == SYS_IOCTL) ioctl_begins(regs, 1);
  return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(system_call_ends, struct pt_regs *regs, long result) {
  if (regs->orig_rax != SYS_IOCTL) return 0;
  struct thread_state *s = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
  if (s && s->ioctl.inside) ioctl_ends(s, result);
  return 0;
}

STATIC_INLINE void record_span(struct thread_state *s, __u64 begin, __u64 end, __u32 what, __u64 value, __s64 result,
                               __u32 id) {
  struct cutrace_ebpf_span *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
  if (!r) {
    count_loss(s->process, CUTRACE_EBPF_RING_FULL);
    return;
  }
  fill_head(&r->head, s, CUTRACE_EBPF_SPAN, 0);
  r->begin_ns = begin;
  r->end_ns = end;
  r->what = what;
  r->value = value;
  r->result = result;
  r->id = id;
  __builtin_memset(r->text, 0, sizeof(r->text));
  bpf_ringbuf_submit(r, wake_after(s, sizeof(*r)));
}

/* Only threads that another program has met (in a driver call, an ioctl, a fault on managed memory) have a state. Why
 * one waits is of interest inside of a call; that its processor was taken from it is of interest everywhere. `preempt`
 * is false for a thread that loses its processor on the way back to user mode: it is ready to run, and has not
 * yielded. */
SEC("tp_btf/sched_switch")
int BPF_PROG(thread_switches, bool preempt, struct task_struct *prev, struct task_struct *next,
             unsigned int prev_state) {
  struct thread_state *s = bpf_task_storage_get(&threads, prev, 0, 0);
  if (s) {
    struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(prev);
    const int taken = preempt || (prev_state == 0 && regs->orig_rax != SYS_SCHED_YIELD);
    const __u32 id = innermost(s, prev, regs->rsp);
    if (id != 0 || s->ioctl.inside || taken) {
      s->off_id = id;
      s->off_state = taken ? CUTRACE_EBPF_PREEMPTED : prev_state;
      s->off_ns = bpf_ktime_get_ns();
    }
  }
  s = bpf_task_storage_get(&threads, next, 0, 0);
  if (s && s->off_ns != 0) {
    record_span(s, s->off_ns, bpf_ktime_get_ns(), CUTRACE_EBPF_SWITCHED_OUT, s->off_state, 0, s->off_id);
    s->off_ns = 0;
  }
  return 0;
}

/* Handlers do not interrupt each other on a processor. */
SEC("tp_btf/irq_handler_entry")
int BPF_PROG(interrupt_begins, int irq, struct irqaction *action) {
  char name[16] = {};
  const __u32 first = 0;
  bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(action, name));
  for (int i = 0; i < sizeof(name); ++i) {
    if (kernel.interrupt[i] == 0) break;
    if (kernel.interrupt[i] != name[i]) return 0;
  }
  struct open_interrupt *o = bpf_map_lookup_elem(&interrupts, &first);
  if (!o) return 0;
  o->action = (__u64)action;
  o->begin_ns = bpf_ktime_get_ns();
  return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(interrupt_ends, int irq, struct irqaction *action, int result) {
  const __u32 first = 0;
  struct open_interrupt *o = bpf_map_lookup_elem(&interrupts, &first);
  if (!o || o->action == 0) return 0;
  const __u64 now = bpf_ktime_get_ns(), begun = o->action;
  o->action = 0;
  if (begun != (__u64)action) return 0;
  struct cutrace_ebpf_span *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
  if (!r) {
    count_for_all(CUTRACE_EBPF_RING_FULL);
    return 0;
  }
  __builtin_memset(r, 0, sizeof(*r));
  r->head.kind = CUTRACE_EBPF_SPAN;
  r->head.cpu = bpf_get_smp_processor_id();
  r->begin_ns = o->begin_ns;
  r->end_ns = now;
  r->what = CUTRACE_EBPF_INTERRUPT;
  r->value = irq;
  r->result = result;
  bpf_probe_read_kernel_str(r->text, sizeof(r->text), BPF_CORE_READ(action, name));
  bpf_ringbuf_submit(r, wake());
  return 0;
}

/* An error of a GPU: nvidia_dev_xid(pdev, number, message) of nv-tracepoint.h, from driver 580 on. Attached by its
 * name alone (raw_tp), so that the module needs no BTF. */
SEC("raw_tp/nvidia_dev_xid")
int gpu_fails(struct bpf_raw_tracepoint_args *ctx) {
  struct cutrace_ebpf_xid *r = bpf_ringbuf_reserve(&ring, sizeof(*r), 0);
  if (!r) {
    count_for_all(CUTRACE_EBPF_RING_FULL);
    return 0;
  }
  __builtin_memset(r, 0, sizeof(*r));
  r->head.kind = CUTRACE_EBPF_XID;
  r->head.cpu = bpf_get_smp_processor_id();
  r->at_ns = bpf_ktime_get_ns();
  r->number = ctx->args[1];
  const struct pci_dev *device = (const struct pci_dev *)ctx->args[0];
  bpf_probe_read_kernel_str(r->device, sizeof(r->device), BPF_CORE_READ(device, dev.kobj.name));
  bpf_probe_read_kernel_str(r->text, sizeof(r->text), (const void *)ctx->args[2]);
  bpf_ringbuf_submit(r, BPF_RB_FORCE_WAKEUP);
  return 0;
}

static long look_at_mapping(struct task_struct *task, struct vm_area_struct *mapping, void *found) {
  struct file *file = BPF_CORE_READ(mapping, vm_file);
  const __u32 device = file ? device_of(file) : 0;
  *(__u32 *)found = device != 0 ? node_of(device) : 0;
  return 0;
}

/* The processor touched managed memory that lies elsewhere: UVM brings it. */
SEC("tp_btf/page_fault_user")
int BPF_PROG(page_faults, unsigned long address, struct pt_regs *regs, unsigned long error) {
  struct task_struct *task = bpf_get_current_task_btf();
  /* A fault on other memory gives the thread no state: it has met no other program then. */
  if (!bpf_task_storage_get(&threads, task, 0, 0) && !running_target(process_of(task))) return 0;
  __u32 node = 0;
  const long why = bpf_find_vma(task, address, look_at_mapping, &node, 0);
  if (why == -16 /* EBUSY: somebody changes the mappings */) {
    struct cutrace_ebpf_totals *t = all_totals();
    if (t) __sync_fetch_and_add(&t->faults_unreported, 1);
    return 0;
  }
  if (why != 0 || node != 2) return 0;
  struct thread_state *s = state_of_current();
  if (!s) return 0;
  const __u64 now = bpf_ktime_get_ns();
  record_span(s, now, now, CUTRACE_EBPF_FAULT, address, error, innermost(s, task, regs->rsp));
  return 0;
}

/* A function of a driver's module, where the kernel permits that. */
SEC("fentry")
int module_enters(void *ctx) {
  struct thread_state *s = state_of_current();
  if (s) s->function_ns[kernel.function & (CUTRACE_EBPF_MODULE_FUNCTIONS - 1)] = bpf_ktime_get_ns();
  return 0;
}
SEC("fexit")
int module_leaves(void *ctx) {
  struct task_struct *task = bpf_get_current_task_btf();
  struct thread_state *s = bpf_task_storage_get(&threads, task, 0, 0);
  if (!s) return 0;
  __u64 *const begin = &s->function_ns[kernel.function & (CUTRACE_EBPF_MODULE_FUNCTIONS - 1)];
  if (*begin == 0) return 0;
  __u64 result = 0;
  bpf_get_func_ret(ctx, &result);
  struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
  record_span(s, *begin, bpf_ktime_get_ns(), CUTRACE_EBPF_MODULE, kernel.function, result,
              innermost(s, task, regs->rsp));
  *begin = 0;
  return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
