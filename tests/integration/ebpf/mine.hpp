// SPDX-License-Identifier: Apache-2.0
// A library of the user, on which he puts probes of his own.
#pragma once

extern "C" {
long mine_add(long, long);
/// Calls what it is given.
int mine_calls(void (*)());
/// Calls itself until so many calls are open.
long mine_deep(long);
}
