// SPDX-License-Identifier: Apache-2.0
// Programs whose GPU faults, that hang, or that are slow but alive, each with a session of cutrace. What a trace must
// say of each is printed ("expects {...}"); stuck.py runs them and compares. On a GPU kernels really fault and hang;
// the stand-in driver simulates it, as asked by cutrace_sim_set_faults().
//
//   stuck_programs fault KIND FORM [poll]      KIND: illegal, misaligned, trap, assert; FORM: see faults.hpp
//   stuck_programs hang NAME                   never ends: to be killed
//   stuck_programs alive NAME
//   stuck_programs list hang|alive
#include <cutrace/cutrace.hpp>

#include "stuck/alive.hpp"
#include "stuck/faults.hpp"
#include "stuck/hangs.hpp"

namespace {

template <std::size_t n>
const stuck::program* find(const stuck::program (&all)[n], const std::string& name) {
  for (const stuck::program& p : all)
    if (name == p.name) return &p;
  return nullptr;
}

template <std::size_t n>
int list(const stuck::program (&all)[n]) {
  for (const stuck::program& p : all) std::printf("%s\n", p.name);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "", name = argc > 2 ? argv[2] : "";
  if (what == "list") return name == "hang" ? list(stuck::hangs::all) : list(stuck::alive::all);
  const stuck::program* const p = what == "hang"    ? find(stuck::hangs::all, name)
                                  : what == "alive" ? find(stuck::alive::all, name)
                                                    : nullptr;
  if (p == nullptr && (what != "fault" || argc < 4)) {
    std::fprintf(stderr, "stuck_programs fault KIND FORM [poll] | hang NAME | alive NAME | list hang|alive\n");
    return 2;
  }
  const cutrace::session trace;
  stuck::gpu g;
  if (what == "fault") return stuck::faults(g, name, argc > 4 && std::string(argv[4]) == "poll").run(argv[3]);
  p->run(g);
  stuck::say("done");
  return 0;
}
