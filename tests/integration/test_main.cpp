// SPDX-License-Identifier: Apache-2.0
// The main function of tests that run other programs.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
