# SPDX-License-Identifier: Apache-2.0
# What can be chosen, and the flags of our own targets. A project that adds cutrace as a subdirectory gets the library
# alone, with its own flags: warnings, sanitizers, tests and examples are ours only at top level.
include(GNUInstallDirs)

if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  set(CUTRACE_TOP_LEVEL ON)
else()
  set(CUTRACE_TOP_LEVEL OFF)
endif()

option(CUTRACE_BUILD_TESTS "Build the tests" ${CUTRACE_TOP_LEVEL})
option(CUTRACE_BUILD_EXAMPLES "Build the examples" ${CUTRACE_TOP_LEVEL})
option(CUTRACE_BUILD_BENCH "Build the benchmarks" OFF)
option(CUTRACE_BUILD_TOOLS "Build the command cutrace and the injection library" ${CUTRACE_TOP_LEVEL})
option(CUTRACE_INSTALL "Make the install rules" ${CUTRACE_TOP_LEVEL})
option(CUTRACE_WERROR "Treat warnings in our own code as errors, as the presets do" OFF)
set(CUTRACE_CUPTI AUTO CACHE STRING "CUPTI backend: AUTO (when its headers are found), ON (or stop), OFF (do not look)")
set_property(CACHE CUTRACE_CUPTI PROPERTY STRINGS AUTO ON OFF)
set(CUTRACE_PERFETTO AUTO CACHE STRING "Perfetto sink: AUTO (when protozero is found), ON (or stop), OFF (do not look)")
set_property(CACHE CUTRACE_PERFETTO PROPERTY STRINGS AUTO ON OFF)
set(CUTRACE_SANITIZE "" CACHE STRING "Sanitizers of our own targets: address,undefined or thread")
set(CUTRACE_TEST_PREFIX "" CACHE STRING "Put before each test's name, so that several builds can be tested in one run")
set(CUTRACE_TEST_SETS all CACHE STRING "Folders of tests/ to build, or all")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND CUTRACE_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

if(CUTRACE_TOP_LEVEL)
  if(NOT CMAKE_CXX_STANDARD)
    set(CMAKE_CXX_STANDARD 17)
  endif()
  set(CMAKE_CXX_STANDARD_REQUIRED ON)
  set(CMAKE_CXX_EXTENSIONS OFF)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wpedantic)
  if(CUTRACE_WERROR)
    add_compile_options(-Werror)
  endif()
  if(CUTRACE_SANITIZE)
    add_compile_options(-fsanitize=${CUTRACE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${CUTRACE_SANITIZE})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # With sanitizers GCC takes what it instruments for uninitialised (std::regex, GCC 12); its manual says so.
      add_compile_options(-Wno-maybe-uninitialized)
    endif()
    if(CUTRACE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # GCC warns that TSan does not see fences. What a fence orders here are relaxed atomics, so no race is reported.
      add_compile_options(-Wno-tsan)
    endif()
    if(CUTRACE_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # This check compares type descriptions, of which each library that hides its symbols has a copy of its own.
      add_compile_options(-fno-sanitize=function)
    endif()
    if(CUTRACE_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # As GCC does it: libraries that are loaded later find the one runtime.
      execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so
                      OUTPUT_VARIABLE asan_runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
      get_filename_component(asan_folder ${asan_runtime} DIRECTORY)
      add_link_options(-shared-libasan -Wl,-rpath,${asan_folder})
    endif()
  endif()
endif()
