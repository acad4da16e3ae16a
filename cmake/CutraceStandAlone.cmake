# SPDX-License-Identifier: Apache-2.0
# The libraries that get into programs which know nothing of cutrace: libcutrace_inject.so, which the driver loads, and
# libcutrace_preload.so, which the loader does. They are self-contained: they export what a list names (exports.map),
# call their own copies of functions, and the C++ library is linked statically, since an older one may be loaded
# already.
if(NOT CUTRACE_BUILD_TOOLS OR CUTRACE_MISSING)
  return()
endif()

# cutrace_compile_stand_alone(<target>): the flags of what goes into them and nowhere else.
# Their thread-local variables (152 bytes) lie in the room that the loader keeps for libraries opened at run time, 1.6
# KiB in glibc: the way to them is one load. In the archive it is calls into the loader, since that also goes into
# plug-ins of programs that have used up that room. With these calls the callback of a launch touches 3 cache lines more
# of code and 5 of data, and takes 1 to 3 ns more in a loop, 13 ns (1.19 [1.17, 1.20]) after other work and 28 ns (1.16
# [1.12, 1.22]) after work on many pages (bench/callback). A hooked call costs the same either way.
# g++'s wrong guess of the event writer (CutraceArchive.cmake) takes 3 cache lines of code in each callback, and 4 ns
# after other work.
function(cutrace_compile_stand_alone target)
  cutrace_compile_apart(${target})
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-ftls-model=initial-exec>
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-devirtualize-speculatively>)
endfunction()

# The runtime for both of them, compiled once. In a build with a sanitizer, which nobody measures, they link the
# archive's.
add_library(cutrace_stand_alone_runtime OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/cutrace_runtime.cpp)
cutrace_compile_stand_alone(cutrace_stand_alone_runtime)
target_link_libraries(cutrace_stand_alone_runtime PRIVATE cutrace_marker)

# cutrace_stand_alone(<target>): makes a shared library one of them. Its folder has an exports.map.
function(cutrace_stand_alone target)
  cutrace_compile_stand_alone(${target})
  set(map ${CMAKE_CURRENT_SOURCE_DIR}/exports.map)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  if(CUTRACE_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-u,cutrace_runtime_${cutrace_version_name})
  else()
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:cutrace_stand_alone_runtime>)
  endif()
  target_link_libraries(${target} PRIVATE cutrace_marker Threads::Threads ${CMAKE_DL_LIBS}
    -Wl,--version-script=${map} -Wl,-Bsymbolic -Wl,-z,defs)
  cutrace_link_archive(${target})  # the sinks; of the runtime the linker takes nothing where it has one
  if(NOT CUTRACE_SANITIZE)
    target_link_libraries(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  cutrace_harden(${target})
  if(CUTRACE_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
  endif()
endfunction()
