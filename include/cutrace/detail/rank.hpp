// SPDX-License-Identifier: Apache-2.0
// Which of many processes this one is, as launchers say it in the environment.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cutrace/config.hpp>
#include <initializer_list>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// First of these variables that holds a number, -1 if none does.
CUTRACE_NOINLINE inline std::int32_t number_from_environment(std::initializer_list<const char*> names) {
  for (const char* n : names) {
    const char* v = std::getenv(n);
    if (v == nullptr || *v == '\0') continue;
    char* end = nullptr;
    const long value = std::strtol(v, &end, 10);
    if (*end == '\0' && value >= 0 && value < 1 << 30) return static_cast<std::int32_t>(value);
  }
  return -1;
}

/// Rank in the whole job: torchrun, Open MPI, Slurm, MPICH and Intel MPI. A launcher that numbers the processes of one
/// machine only (LOCAL_RANK) is taken at its word. -1 where there is none.
inline std::int32_t process_rank() {
  return number_from_environment({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "LOCAL_RANK"});
}
/// Number of processes of the job, or -1.
inline std::int32_t process_world_size() {
  return number_from_environment({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "PMI_SIZE"});
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
