// SPDX-License-Identifier: Apache-2.0
// A library that is linked with libcuda and loaded while the program runs: the loader fills its GOT slots
// then, and the preload library must hook them.
#include <dlfcn.h>

#include "shapes.hpp"

extern "C" std::uint64_t plugin_calls(std::uint64_t v) {
  // Found among this library's own dependencies where the program has not made the driver global.
  const auto leaf = reinterpret_cast<decltype(&cuLeaf)>(dlsym(RTLD_DEFAULT, "cuLeaf"));
  return cuLeaf(v) + leaf(v + 1) + cuEleven(nullptr, 1, 2, 3, 4, 5, 6, 7, nullptr, nullptr, nullptr);
}

/// Hands a function out by itself, as libraries that register in their constructors do: the program needs no dlsym.
extern "C" __attribute__((weak)) void subject_takes(std::uint64_t (*)(std::uint64_t));
namespace {
std::uint64_t leaf_of_plugin(std::uint64_t v) { return cuLeaf(v); }
__attribute__((constructor)) void hand_out() {
  if (subject_takes != nullptr) subject_takes(&leaf_of_plugin);
}
}  // namespace

/// A table of functions that the loader fills.
extern "C" std::uint64_t (*const plugin_table[])(std::uint64_t) = {&cuLeaf, &cuNested};
