# SPDX-License-Identifier: Apache-2.0
# How the parts of cutrace are compiled once. In the package too: where its build had no CUDA headers, a project that
# uses the package compiles the CUPTI backend itself.

# cutrace_compile_apart(<target>): compiles it so that it cannot clash with the program that links it. Its copy of fmt
# is in a namespace of cutrace's, so that a program may have any other fmt. It exports nothing, and has no unique symbol
# (STB_GNU_UNIQUE) of a template, which would keep a plug-in that links it from being unloaded.
function(cutrace_compile_apart target)
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON INTERPROCEDURAL_OPTIMIZATION OFF)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-fno-lto> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  target_compile_definitions(${target} PRIVATE
    FMT_HEADER_ONLY=1 "FMT_BEGIN_NAMESPACE=namespace fmt { inline namespace cutrace_archive {" "FMT_END_NAMESPACE=}}")
  foreach(needed fmt::fmt Boost::headers)
    target_include_directories(${target} SYSTEM PRIVATE
      $<$<TARGET_EXISTS:${needed}>:$<TARGET_PROPERTY:${needed},INTERFACE_INCLUDE_DIRECTORIES>>)
  endforeach()
endfunction()

# cutrace_archive(<part> SOURCES...): the static library of one part of cutrace, the target cutrace_<part>. It goes into
# programs and into shared libraries.
# Problem: a linker takes nothing from an archive that nobody refers to, such as a registration. Solution: the target's
# link options name the symbol of the part (CUTRACE_ANCHOR), and so does every file that includes cutrace/session.hpp, by
# the definition CUTRACE_COMPILED or CUTRACE_COMPILED_<PART>. Where markers are compiled to nothing, nothing is taken.
# Reads cutrace_version_name (v1_2_3) and CUTRACE_ARCHIVE_FOLDER, where the file lies.
function(cutrace_archive part)
  set(target cutrace_${part})
  add_library(${target} STATIC ${ARGN})
  add_library(cutrace::${part} ALIAS ${target})
  cutrace_compile_apart(${target})
  set_target_properties(${target} PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${CUTRACE_ARCHIVE_FOLDER} DEBUG_POSTFIX "")
  if(NOT CUTRACE_TOP_LEVEL AND NOT CUTRACE_INSTALL)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)  # who links it has it built
  endif()
  set(disabled $<IN_LIST:CUTRACE_DISABLE,$<TARGET_PROPERTY:COMPILE_DEFINITIONS>>)
  set(anchor ${part})
  string(TOUPPER CUTRACE_COMPILED_${part} definition)
  if(part STREQUAL "cutrace")
    set(anchor runtime)
    set(definition CUTRACE_COMPILED)
  endif()
  # At a virtual call g++ guesses that the object is of the only class it sees that implements the interface, and
  # compares first. A backend's file does not see the runtime's class of event writer: the guess would be wrong in each
  # callback.
  if(NOT part STREQUAL "cutrace")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-devirtualize-speculatively>)
  endif()
  target_compile_definitions(${target} INTERFACE ${definition}=1)
  target_link_options(${target} INTERFACE $<$<NOT:${disabled}>:-Wl,-u,cutrace_${anchor}_${cutrace_version_name}>)
  target_link_libraries(${target} PUBLIC cutrace::marker Threads::Threads ${CMAKE_DL_LIBS})
endfunction()
