// SPDX-License-Identifier: Apache-2.0
// Sinks by name, and the sinks themselves: for the one source file of a program that compiles them. Others include
// sink_registry.hpp.
#pragma once

#include <cutrace/sinks/make_file_sinks.hpp>
#include <cutrace/sinks/make_text_sinks.hpp>
#include <cutrace/sinks/sink_registry.hpp>
