// SPDX-License-Identifier: Apache-2.0
// libshapes_helper.so: a library that the driver's own calls, as its compiler is, and that calls it back through its
// slots.
#include "shapes.hpp"

extern "C" std::uint64_t shapes_helper(std::uint64_t v) { return cuLeaf(v) + cuLeaf(v + 1); }
