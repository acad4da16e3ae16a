# SPDX-License-Identifier: Apache-2.0
# cutrace::marker, the light headers alone; cutrace::header_only, markers and the runtime as source files that each
# program compiles; cutrace::cutrace, the same compiled once. (cutrace::cupti and cutrace::sim are made in the folders of
# their backends.)
set(CUTRACE_INCLUDE_INSTALL_DIR ${CMAKE_INSTALL_INCLUDEDIR})
set(CUTRACE_PACKAGE_INSTALL_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/cutrace)

# cutrace_installed_path(<result> <prefix> <folder>): the folder below the prefix, or the folder itself where it is
# absolute, which GNUInstallDirs allows.
function(cutrace_installed_path result prefix folder)
  if(NOT IS_ABSOLUTE "${folder}")
    set(folder "${prefix}/${folder}")
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

add_library(cutrace_marker INTERFACE)
add_library(cutrace::marker ALIAS cutrace_marker)
target_compile_features(cutrace_marker INTERFACE cxx_std_17)
# A release archive has the generated headers in include/, too: those of the build are found first.
target_include_directories(cutrace_marker INTERFACE $<BUILD_INTERFACE:${CUTRACE_GENERATED_INCLUDE_DIR}>
                                                    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                    $<INSTALL_INTERFACE:${CUTRACE_INCLUDE_INSTALL_DIR}>)

string(REPLACE . _ cutrace_version_name v${PROJECT_VERSION})
include(CutraceArchive)
set(CUTRACE_ARCHIVE_FOLDER ${PROJECT_BINARY_DIR})

# cutrace_link_archive(<target>): libcutrace.a alone, of which the linker takes what the target's own files refer to,
# without the backends that come along with cutrace::cutrace.
function(cutrace_link_archive target)
  target_link_libraries(${target} PRIVATE $<TARGET_FILE:cutrace_cutrace> Threads::Threads ${CMAKE_DL_LIBS})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS $<TARGET_FILE:cutrace_cutrace>)
  add_dependencies(${target} cutrace_cutrace)
endfunction()

set(CUTRACE_SOURCES cutrace_runtime.cpp cutrace_text_sinks.cpp cutrace_file_sinks.cpp)
if(NOT CUTRACE_MISSING)
  # Three files and those of the backends, because compiling takes seconds, and several files compile at the same time.
  # Caveat: each static library that links this target contains a copy; the linker keeps one of them.
  add_library(cutrace_header_only INTERFACE)
  add_library(cutrace::header_only ALIAS cutrace_header_only)
  set(build_sources ${PROJECT_SOURCE_DIR}/cmake)
  cutrace_installed_path(installed_sources $<INSTALL_PREFIX> ${CUTRACE_PACKAGE_INSTALL_DIR})
  foreach(source IN LISTS CUTRACE_SOURCES)
    target_sources(cutrace_header_only INTERFACE $<BUILD_INTERFACE:${build_sources}/${source}>
                                                 $<INSTALL_INTERFACE:${installed_sources}/${source}>)
  endforeach()
  # The CUPTI backend is looked up where the consumer stands: it comes along whenever that machine has the headers.
  set(has_cupti $<TARGET_EXISTS:cutrace::cupti_headers>)
  target_sources(cutrace_header_only INTERFACE
                 $<BUILD_INTERFACE:$<${has_cupti}:${build_sources}/cutrace_cupti.cpp>>
                 $<INSTALL_INTERFACE:$<${has_cupti}:${installed_sources}/cutrace_cupti.cpp>>)
  target_link_libraries(cutrace_header_only INTERFACE cutrace_marker fmt::fmt Boost::headers Threads::Threads
                                                      ${CMAKE_DL_LIBS}
                                                      $<TARGET_NAME_IF_EXISTS:cutrace::cupti_headers>)

  list(TRANSFORM CUTRACE_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/cmake/ OUTPUT_VARIABLE archive_sources)
  cutrace_archive(cutrace ${archive_sources} ${PROJECT_SOURCE_DIR}/cmake/cutrace_compiled.cpp)
  set_target_properties(cutrace_cutrace PROPERTIES OUTPUT_NAME cutrace)
  target_link_libraries(cutrace_cutrace INTERFACE $<TARGET_NAME_IF_EXISTS:cutrace::cupti>)

  # The libraries that the headers of runtime and sinks need, for programs of this tree that include these headers.
  add_library(cutrace_header_needs INTERFACE)
  target_link_libraries(cutrace_header_needs INTERFACE fmt::fmt Boost::headers)

  # A project that uses cutrace::header_only of the package finds protozero in its include path, or does without it.
  if(CUTRACE_WITH_PERFETTO)
    if(NOT CUTRACE_PROTOZERO_INCLUDE_DIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      foreach(target cutrace_header_only cutrace_header_needs)
        target_include_directories(${target} SYSTEM INTERFACE $<BUILD_INTERFACE:${CUTRACE_PROTOZERO_INCLUDE_DIR}>)
      endforeach()
      target_include_directories(cutrace_cutrace SYSTEM PRIVATE ${CUTRACE_PROTOZERO_INCLUDE_DIR})
    endif()
  elseif(CUTRACE_PERFETTO STREQUAL "OFF")
    target_compile_definitions(cutrace_header_only INTERFACE CUTRACE_WITHOUT_PERFETTO)
    target_compile_definitions(cutrace_header_needs INTERFACE CUTRACE_WITHOUT_PERFETTO)
    target_compile_definitions(cutrace_cutrace PRIVATE CUTRACE_WITHOUT_PERFETTO)
  endif()
else()
  string(REPLACE ";" ", " cutrace_missing_text "${CUTRACE_MISSING}")
  if(CUTRACE_TOP_LEVEL)
    message(FATAL_ERROR "cutrace: missing ${cutrace_missing_text}. scripts/setup installs what is needed.")
  endif()
  message(STATUS "cutrace: only cutrace::marker is available, missing ${cutrace_missing_text}")
endif()
