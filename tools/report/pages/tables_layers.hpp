// SPDX-License-Identifier: Apache-2.0
// The machine-readable tables of the layers between program and GPU; empty for traces without ioctls.
#pragma once

#include "report/layers.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace tables {

template <class Row>
void layer_fields(Row& row, const analysis::layer_times& t) {
  row("user_code_ns", t.of(analysis::layer::user_code));
  row("driver_call_ns", t.of(analysis::layer::driver_call));
  row("kernel_ns", t.of(analysis::layer::kernel));
  row("waiting_ns", t.of(analysis::layer::waiting));
  row("gpu_ns", t.gpu_ns);
}

template <class Out, class FirstOf>
void layer_tables(Out& out, const analysis::layer_report& r, FirstOf first_of) {
  out.table("thread_layers", first_of(r.threads), [](auto& row, const analysis::thread_layers& t) {
    row("thread", t.thread_id);
    row("start_ns", t.span.start_ns);
    row("end_ns", t.span.end_ns);
    layer_fields(row, t.times);
  });
  out.table("stage_layers", first_of(r.stages), [](auto& row, const analysis::stage_layers& s) {
    row("stage", s.name);
    layer_fields(row, s.times);
  });
  out.table("ioctls", first_of(r.ioctls), [](auto& row, const analysis::ioctl_row& i) {
    row("name", i.name);
    row("command", i.command);
    row("count", i.count);
    row("failed", i.failed);
    row("total_ns", i.total_ns);
    row("longest_ns", i.longest_ns);
    row("in_calls", i.in_calls);
    row("call", i.call);
    row("of_call", i.of_call);
  });
  out.object("driver_objects", [&](auto& row) {
    row("made", r.objects.made);
    row("failed", r.objects.failed);
    row("freed", r.objects.freed);
    row("memory", r.objects.memory);
    row("channels", r.objects.channels);
    row("contexts", r.objects.contexts);
    row("address_spaces", r.objects.address_spaces);
  });
}

}  // namespace tables
CUTRACE_END_NAMESPACE
