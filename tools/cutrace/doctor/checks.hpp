// SPDX-License-Identifier: Apache-2.0
// The checks, in the order in which doctor prints them. Each reads the machine as `setup` says and changes nothing of
// it; none throws for what it finds. What may hang or crash runs in a child.
#pragma once

#include "driver_probe.hpp"
#include "finding.hpp"
#include "setup.hpp"

namespace cutrace_tool::doctor {

findings check_driver(const setup& s, const driver_facts& driver);
findings check_device_nodes(const setup& s, const driver_facts& driver);
findings check_cupti(const setup& s, const driver_facts& driver);
findings check_counters(const setup& s);
findings check_environment(const setup& s);
findings check_virtual(const setup& s, const driver_facts& driver);  ///< MIG, MPS, virtual machines, WSL
findings check_clock(const setup& s);
findings check_output(const setup& s);
findings check_memory(const setup& s);
findings check_cutrace_libraries(const setup& s);
findings check_build();
findings check_program(const setup& s);  ///< no finding where no program was named
findings check_bpf(const setup& s);
findings check_ptrace(const setup& s);
findings check_lockdown(const setup& s);
findings check_try(const setup& s, const driver_facts& driver);  ///< no finding unless asked for

}  // namespace cutrace_tool::doctor
