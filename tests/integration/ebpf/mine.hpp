// SPDX-License-Identifier: Apache-2.0
// A library of the user, on which he puts probes of his own.
#pragma once

extern "C" {
long mine_add(long, long);
/// Calls what it is given.
int mine_calls(void (*)());
/// Calls itself until so many calls are open.
long mine_deep(long);
/// Each by a function mine_twice of its own, which is not exported.
long mine_doubles(long);
long mine_doubles_too(long);
}
