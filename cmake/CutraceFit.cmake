# SPDX-License-Identifier: Apache-2.0
# Whether the project that uses the package can link its compiled library: same C++ library, same layout of strings, no
# sanitizer. What is set for single targets later is not seen here; the linker notices it (cutrace/compiled.hpp).
include(CheckCXXSourceCompiles)

# cutrace_check_fit(<result> <archive> <include folders>): empty when it fits, otherwise the reason.
function(cutrace_check_fit result archive include_folders)
  set(${result} "" PARENT_SCOPE)
  if(NOT EXISTS ${archive})
    set(${result} "libcutrace.a is not built yet" PARENT_SCOPE)
    return()
  endif()
  # The names of symbols stand in the head of the archive.
  file(STRINGS ${archive} built LIMIT_COUNT 1 REGEX "_compiled_for_[a-z0-9_]+__otherwise")
  string(REGEX REPLACE ".*_compiled_for_([a-z0-9_]+)__otherwise.*" "\\1" built "${built}")
  string(REPLACE "_" " " built "${built}")

  # What this folder gives to all targets, as far as it is known now.
  get_directory_property(options COMPILE_OPTIONS)
  get_directory_property(definitions COMPILE_DEFINITIONS)
  list(TRANSFORM definitions PREPEND -D)
  set(for_all ${options} ${definitions})
  list(FILTER for_all EXCLUDE REGEX "\\$<|[ \"']")
  string(REPLACE ";" " " for_all "${for_all}")

  set(configurations ${CMAKE_CONFIGURATION_TYPES})
  if(NOT configurations)
    set(configurations "${CMAKE_BUILD_TYPE}")
  endif()
  if(NOT configurations)
    set(configurations None)
  endif()
  set(CMAKE_TRY_COMPILE_TARGET_TYPE EXECUTABLE)
  if(NOT CMAKE_CXX_STANDARD OR CMAKE_CXX_STANDARD LESS 17)
    set(CMAKE_CXX_STANDARD 17)
  endif()
  set(CMAKE_REQUIRED_QUIET ON)
  set(CMAKE_REQUIRED_DEFINITIONS -DCUTRACE_COMPILED=1)
  set(CMAKE_REQUIRED_INCLUDES ${include_folders})
  set(CMAKE_REQUIRED_LIBRARIES ${archive})
  foreach(configuration IN LISTS configurations)
    string(TOUPPER "${configuration}" upper)
    set(CMAKE_REQUIRED_FLAGS "${CMAKE_CXX_FLAGS_${upper}} ${for_all}")
    set(flags "${CMAKE_CXX_FLAGS} ${CMAKE_REQUIRED_FLAGS}")
    # Some sanitizers leave no trace in macros.
    if(built MATCHES "no sanitizer" AND flags MATCHES "-fsanitize=[^ ]*")
      set(${result} "libcutrace.a has no ${CMAKE_MATCH_0}" PARENT_SCOPE)
      return()
    endif()
    file(TIMESTAMP ${archive} written)
    string(MD5 key "${CMAKE_CXX_COMPILER} ${flags} ${archive} ${written}")  # another answer for other flags
    check_cxx_source_compiles("#include <cutrace/compiled.hpp>\nint main() { return 0; }" CUTRACE_FITS_${key})
    if(NOT CUTRACE_FITS_${key})
      set(${result} "libcutrace.a is compiled for ${built}, and this project is not" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()
