# SPDX-License-Identifier: Apache-2.0
# cutrace_one_runtime: the library with its runtime compiled once for all programs of this build that link it, which by
# cutrace::cutrace would each compile their own: half a minute of each under sanitizers.
add_library(cutrace_one_runtime_objects OBJECT)
target_link_libraries(cutrace_one_runtime_objects PRIVATE cutrace::cutrace)
add_library(cutrace_one_runtime INTERFACE)
target_sources(cutrace_one_runtime INTERFACE $<TARGET_OBJECTS:cutrace_one_runtime_objects>)
target_link_libraries(cutrace_one_runtime INTERFACE cutrace::marker fmt::fmt Boost::headers Threads::Threads
                                                    ${CMAKE_DL_LIBS} $<TARGET_NAME_IF_EXISTS:cutrace::cupti>)
