# SPDX-License-Identifier: Apache-2.0
# How tests are registered, and which compilers the source-level checks may use.

# cutrace_add_test(<name> [LABELS ...] [FIXTURE <name>] [SETUP <name>] [ENVIRONMENT ...] [NOT_EMULATED ...] COMMAND ...)
#   FIXTURE: runs after the test that has the same name as SETUP. Exit code 77 means skipped: the reason is printed.
#   NOT_EMULATED: cases of doctest that cannot run under an emulator (scripts/test-aarch64), as doctest's filters.
function(cutrace_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FIXTURE;SETUP;TIMEOUT" "LABELS;ENVIRONMENT;NOT_EMULATED;COMMAND")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  # A build with a sanitizer runs what is labelled for it: the others have nothing for it to see.
  if((CUTRACE_SANITIZE MATCHES "address" AND NOT "asan" IN_LIST arg_LABELS) OR
     (CUTRACE_SANITIZE MATCHES "thread" AND NOT "tsan" IN_LIST arg_LABELS))
    return()
  endif()
  if(arg_NOT_EMULATED AND CMAKE_CROSSCOMPILING)
    list(JOIN arg_NOT_EMULATED "," filters)
    list(APPEND arg_COMMAND "--test-case-exclude=${filters}")
  endif()
  set(full ${CUTRACE_TEST_PREFIX}${name})
  add_test(NAME ${full} COMMAND ${arg_COMMAND})
  set_tests_properties(${full} PROPERTIES TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77)
  # What takes longest begins first, or it would run alone at the end.
  if(name MATCHES "^headers\\.alone|^package\\.(fallback|no_cmake|vendored)|session_cycles|faults_calls|trace_file|perfetto_sink")
    set_tests_properties(${full} PROPERTIES COST 100)
  endif()
  if(arg_LABELS)
    set_tests_properties(${full} PROPERTIES LABELS "${arg_LABELS}")
  endif()
  if(arg_FIXTURE)
    set_tests_properties(${full} PROPERTIES FIXTURES_REQUIRED ${CUTRACE_TEST_PREFIX}${arg_FIXTURE})
  endif()
  if(arg_SETUP)
    set_tests_properties(${full} PROPERTIES FIXTURES_SETUP ${CUTRACE_TEST_PREFIX}${arg_SETUP})
  endif()
  if(CUTRACE_SANITIZE)
    # By default each process waits a second at its end for reports of other threads: minutes in all.
    list(APPEND arg_ENVIRONMENT
         TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp:atexit_sleep_ms=50)
  endif()
  if(arg_ENVIRONMENT)
    set_tests_properties(${full} PROPERTIES ENVIRONMENT "${arg_ENVIRONMENT}")
  endif()
endfunction()

# Compilers that source-level checks run with: the one of this build, and the other family's where there is one.
set(CUTRACE_CHECK_COMPILERS ${CMAKE_CXX_COMPILER})
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  find_program(CUTRACE_OTHER_CXX NAMES clang++ clang++-18 clang++-17 clang++-16 clang++-15 clang++-14)
else()
  find_program(CUTRACE_OTHER_CXX NAMES g++)
endif()
mark_as_advanced(CUTRACE_OTHER_CXX)
if(CUTRACE_OTHER_CXX)
  list(APPEND CUTRACE_CHECK_COMPILERS ${CUTRACE_OTHER_CXX})
endif()

# Include folders for checks that call a compiler by themselves: ours, and foreign ones as system folders.
set(CUTRACE_CHECK_INCLUDES -I${CUTRACE_GENERATED_INCLUDE_DIR} -I${PROJECT_SOURCE_DIR}/include
                           -I${PROJECT_SOURCE_DIR}/backends/sim/include
                           -I${PROJECT_SOURCE_DIR}/backends/ioctl/include)
if(TARGET cutrace_cupti_headers)
  list(APPEND CUTRACE_CHECK_INCLUDES -I${PROJECT_SOURCE_DIR}/backends/cupti/include
                                     -I${PROJECT_BINARY_DIR}/backends/cupti/include)
  set(cutrace_cuda_dirs ${CUPTI_INCLUDE_DIRS})
  list(REMOVE_ITEM cutrace_cuda_dirs ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
  foreach(dir IN LISTS cutrace_cuda_dirs)
    list(APPEND CUTRACE_CHECK_INCLUDES -isystem${dir})
  endforeach()
endif()
if(CUTRACE_WITH_PERFETTO AND NOT CUTRACE_PROTOZERO_INCLUDE_DIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
  list(APPEND CUTRACE_CHECK_INCLUDES -isystem${CUTRACE_PROTOZERO_INCLUDE_DIR})
endif()
# What a program needs in its environment to run on the stand-in driver and its CUPTI. On a busy machine a program that
# leaves at once would not wait long enough for the end of its trace.
if(TARGET cutrace_standin_cuda)
  set(CUTRACE_STANDIN_ENVIRONMENT LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/standin
                                  CUTRACE_CUPTI_LIBRARY=$<TARGET_SONAME_FILE:cutrace_standin_cupti>
                                  CUTRACE_LEAVE_WAIT_MS=20000)
endif()

# What opens pages in a browser, for tests/browser and tests/clients. Not required.
find_program(CUTRACE_CHROMIUM NAMES chromium chromium-browser google-chrome)
find_program(CUTRACE_CHROMEDRIVER NAMES chromedriver)
find_program(CUTRACE_PYTHON NAMES python3)
find_program(CUTRACE_BASH bash)
mark_as_advanced(CUTRACE_CHROMIUM CUTRACE_CHROMEDRIVER CUTRACE_PYTHON CUTRACE_BASH)
if(NOT CUTRACE_BASH)
  message(FATAL_ERROR "cutrace: the tests need bash")
endif()
