# SPDX-License-Identifier: Apache-2.0
# cutrace::marker, the light headers alone, and cutrace::cutrace, markers with the runtime behind them.
# (cutrace::cupti and cutrace::sim are made in the folders of their backends.)
set(CUTRACE_INCLUDE_INSTALL_DIR ${CMAKE_INSTALL_INCLUDEDIR})
set(CUTRACE_PACKAGE_INSTALL_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/cutrace)

add_library(cutrace_marker INTERFACE)
add_library(cutrace::marker ALIAS cutrace_marker)
set_target_properties(cutrace_marker PROPERTIES EXPORT_NAME marker)
target_compile_features(cutrace_marker INTERFACE cxx_std_17)
target_include_directories(cutrace_marker INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                    $<INSTALL_INTERFACE:${CUTRACE_INCLUDE_INSTALL_DIR}>)

# Problem: the library is headers only, but a program needs the runtime compiled exactly once, and nobody should have
# to know. Solution: the target brings its source files along, which each executable or library that links it compiles.
# There are three, because that takes seconds, and compilers can share them. Caveat: a static library that links it
# carries a copy of its own; the linker keeps one of them.
set(CUTRACE_SOURCES cutrace_runtime.cpp cutrace_text_sinks.cpp cutrace_file_sinks.cpp)
if(NOT CUTRACE_MISSING)
  add_library(cutrace_cutrace INTERFACE)
  add_library(cutrace::cutrace ALIAS cutrace_cutrace)
  set_target_properties(cutrace_cutrace PROPERTIES EXPORT_NAME cutrace)
  foreach(source IN LISTS CUTRACE_SOURCES)
    target_sources(cutrace_cutrace INTERFACE
                   $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/cmake/${source}>
                   $<INSTALL_INTERFACE:$<INSTALL_PREFIX>/${CUTRACE_PACKAGE_INSTALL_DIR}/${source}>)
  endforeach()
  # cutrace::cupti is looked up where the consumer stands: it comes along whenever that machine has the headers.
  target_link_libraries(cutrace_cutrace INTERFACE cutrace_marker fmt::fmt Boost::headers Threads::Threads
                                                  ${CMAKE_DL_LIBS} $<TARGET_NAME_IF_EXISTS:cutrace::cupti>)
  # Who uses the package finds protozero by its own include path, or does without.
  if(CUTRACE_WITH_PERFETTO)
    if(NOT CUTRACE_PROTOZERO_INCLUDE_DIR IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      target_include_directories(cutrace_cutrace SYSTEM INTERFACE $<BUILD_INTERFACE:${CUTRACE_PROTOZERO_INCLUDE_DIR}>)
    endif()
  elseif(CUTRACE_PERFETTO STREQUAL "OFF")
    target_compile_definitions(cutrace_cutrace INTERFACE CUTRACE_WITHOUT_PERFETTO)
  endif()
else()
  string(REPLACE ";" ", " cutrace_missing_text "${CUTRACE_MISSING}")
  if(CUTRACE_TOP_LEVEL)
    message(FATAL_ERROR "cutrace: missing ${cutrace_missing_text}. scripts/setup installs what is needed.")
  endif()
  message(STATUS "cutrace: only cutrace::marker is available, missing ${cutrace_missing_text}")
endif()
