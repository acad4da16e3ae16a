// SPDX-License-Identifier: Apache-2.0
// The tables of a report about the layers between program and GPU: of traces that have ioctls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cutrace/sinks/ascii/page.hpp>
#include <cutrace/sinks/ascii/tables.hpp>
#include <string>

#include "report/layers.hpp"
#include "report/pages/text_head.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace ascii {

class layer_tables {
 public:
  layer_tables(page& out, const analysis::layer_report& r) : out_(out), r_(r) {}

  CUTRACE_NOINLINE void print(std::size_t top) {
    if (r_.ioctls.empty()) return;
    times("TIME PER LAYER, BY THREAD", r_.threads, top, "thread", [](const analysis::thread_layers& t) {
      return t.name.empty() ? joined({"thread ", digits(t.thread_id)})
                            : joined({t.name, " (", digits(t.thread_id), ")"});
    });
    const bool staged = r_.stages.size() > 1 || (!r_.stages.empty() && !r_.stages[0].name.empty());
    if (staged)
      times("TIME PER LAYER, BY STAGE", r_.stages, top, "stage",
            [](const analysis::stage_layers& s) { return s.name.empty() ? std::string("(in no stage)") : s.name; });
    out_.paragraph(
        "    Each moment of a thread counts once, for the innermost: driver is without ioctls, waiting is switched out "
        "or "
        "in a call that synchronises. GPU time is counted separately: work of the thread's or stage's own calls.",
        4);
    ioctls(top);
    objects();
  }

 private:
  template <class List, class Name>
  void times(const char* title, const List& list, std::size_t top, const char* what, Name&& name) {
    out_.heading(title, {{"user code", 11}, {"driver", 11}, {"kernel", 11}, {"waiting", 11}, {"GPU", 11}});
    const std::size_t room = out_.width() - 2 - 55;
    const std::size_t shown = std::min(top, list.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const analysis::layer_times& t = list[i].times;
      out_.line({"  ",
                 {label(name(list[i]), room - 1), left(room)},
                 {duration(t.of(analysis::layer::user_code)), 11},
                 {duration(t.of(analysis::layer::driver_call)), 11},
                 {duration(t.of(analysis::layer::kernel)), 11},
                 {duration(t.of(analysis::layer::waiting)), 11},
                 {duration(t.gpu_ns), 11}});
    }
    print_left_out(out_, list.size(), shown, what);
  }

  void ioctls(std::size_t top) {
    out_.heading("IOCTLS", {{"count", 10}, {"failed", 10}, {"total", 10}, {"  ", 2}, {"made in", -24}});
    const std::size_t room = out_.width() - 2 - 56;
    const std::size_t shown = std::min(top, r_.ioctls.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const analysis::ioctl_row& o = r_.ioctls[i];
      const std::string name = o.command.empty() ? o.name : joined({o.name, " ", o.command});
      out_.line({"  ",
                 {label(name, room - 1), left(room)},
                 {count(o.count), 10},
                 {count(o.failed), 10},
                 {duration(static_cast<std::int64_t>(o.total_ns)), 10},
                 "  ",
                 {o.call.empty() ? std::string("-") : label(o.call, 24), -24}});
    }
    print_left_out(out_, r_.ioctls.size(), shown, "name");
  }

  void objects() {
    const analysis::driver_objects& o = r_.objects;
    if (o.made + o.failed + o.freed == 0) return;
    out_.paragraph({"    Objects that the driver made: ", count(o.made), " (", counted(o.memory, "allocation"),
                    " of memory, ", counted(o.channels, "channel"), ", ", counted(o.contexts, "context"), ", ",
                    counted(o.address_spaces, "address space"), "), ", count(o.failed), " more failed; ",
                    count(o.freed), " freed."},
                   4);
  }

  page& out_;
  const analysis::layer_report& r_;
};

}  // namespace ascii
CUTRACE_END_NAMESPACE
