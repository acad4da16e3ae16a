// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's numbers are called, by driver branch: tables made from the headers of the open kernel modules by
// scripts/ioctl_tables. Pure functions; nothing is allocated, and the names live for ever.
//
// `branch` is the major number of the driver's version (580); 0 where it is not known: then the newest meaning is
// taken. For a branch that the tables do not hold, the nearest older one is taken.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>
#include <iterator>

CUTRACE_BEGIN_NAMESPACE
namespace ioctls {

/// A place in a parameter block that is not there.
inline constexpr std::uint16_t none = 0xffff;

/// An escape (ioctl NV_ESC_* of /dev/nvidia*) and where in its parameter block, in bytes, the recorded fields stand.
struct escape {
  std::uint32_t number;
  std::uint16_t since, until;
  std::uint16_t bytes;  ///< of the block, 0: not known
  std::uint16_t status, client, parent, object, object_class, command;
  const char* name;
};
struct uvm_command {
  std::uint32_t number;
  std::uint16_t since, until;
  std::uint16_t bytes;  ///< 0: it has no block, or that is not known
  std::uint16_t status;
  const char* name;
};
struct number_name {
  std::uint32_t number;
  std::uint16_t since, until;
  const char* name;
};

namespace tables {
// clang-format off
inline constexpr escape escapes[] = {
#include <cutrace/ioctl/tables/escapes.inc>
};
inline constexpr uvm_command uvm_commands[] = {
#include <cutrace/ioctl/tables/uvm.inc>
};
inline constexpr number_name statuses[] = {
#include <cutrace/ioctl/tables/statuses.inc>
};
inline constexpr number_name classes[] = {
#include <cutrace/ioctl/tables/classes.inc>
};
inline constexpr number_name controls[] = {
#include <cutrace/ioctl/tables/controls.inc>
};
// clang-format on

template <class Row>
constexpr bool holds(const Row& row, std::uint32_t branch) noexcept {
  return branch == 0 ? row.until == 0 : branch >= row.since && (row.until == 0 || branch <= row.until);
}

/// How far a row is from a branch: 0 where it holds, then older ones by nearness, then newer ones.
template <class Row>
constexpr std::uint32_t distance(const Row& row, std::uint32_t branch) noexcept {
  if (holds(row, branch)) return 0;
  const std::uint32_t asked = branch == 0 ? none : branch;
  return row.until != 0 && row.until < asked ? asked - row.until : 0x10000u + row.since;
}

/// The best row of a number; `better` decides among those that fit the branch equally. nullptr: no such number.
template <class Row, std::size_t N, class Better>
const Row* find(const Row (&table)[N], std::uint32_t number, std::uint32_t branch, Better better) noexcept {
  const Row* row = std::lower_bound(std::begin(table), std::end(table), number,
                                    [](const Row& r, std::uint32_t n) { return r.number < n; });
  const Row* best = nullptr;
  for (; row != std::end(table) && row->number == number; ++row) {
    const bool nearer = best != nullptr && distance(*row, branch) < distance(*best, branch);
    const bool as_near = best != nullptr && distance(*row, branch) == distance(*best, branch);
    if (best == nullptr || nearer || (as_near && better(*row, *best))) best = row;
  }
  return best;
}
template <std::size_t N>
const char* name_of(const number_name (&table)[N], std::uint32_t number, std::uint32_t branch) noexcept {
  const number_name* row = find(table, number, branch, [](const auto&, const auto&) { return false; });
  return row != nullptr ? row->name : nullptr;
}
}  // namespace tables

/// By number alone, as sizes change from driver to driver; where one escape has several blocks (NV_ESC_RM_ALLOC), the
/// one of `bytes`.
inline const escape* find_escape(std::uint32_t number, std::uint32_t bytes, std::uint32_t branch) noexcept {
  return tables::find(tables::escapes, number, branch,
                      [bytes](const escape& a, const escape& b) { return a.bytes == bytes && b.bytes != bytes; });
}
inline const uvm_command* find_uvm(std::uint32_t number, std::uint32_t branch) noexcept {
  return tables::find(tables::uvm_commands, number, branch, [](const auto&, const auto&) { return false; });
}
/// nullptr where a number is unknown.
inline const char* status_name(std::uint32_t status, std::uint32_t branch) noexcept {
  return tables::name_of(tables::statuses, status, branch);
}
inline const char* class_name(std::uint32_t number, std::uint32_t branch) noexcept {
  return tables::name_of(tables::classes, number, branch);
}
inline const char* control_name(std::uint32_t command, std::uint32_t branch) noexcept {
  return tables::name_of(tables::controls, command, branch);
}

}  // namespace ioctls
CUTRACE_END_NAMESPACE
