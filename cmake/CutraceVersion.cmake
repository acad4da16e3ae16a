# SPDX-License-Identifier: Apache-2.0
# Reads the version from the one place where it is written.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../include/cutrace/version.hpp cutrace_version_lines
     REGEX "^#define CUTRACE_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$")
foreach(line IN LISTS cutrace_version_lines)
  string(REGEX MATCH "CUTRACE_VERSION_([A-Z]+) ([0-9]+)" unused "${line}")
  set(cutrace_version_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
endforeach()
set(CUTRACE_VERSION ${cutrace_version_MAJOR}.${cutrace_version_MINOR}.${cutrace_version_PATCH})
if(NOT CUTRACE_VERSION MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+$")
  message(FATAL_ERROR "cutrace: include/cutrace/version.hpp does not hold a version (read '${CUTRACE_VERSION}')")
endif()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${CMAKE_CURRENT_LIST_DIR}/../include/cutrace/version.hpp)
