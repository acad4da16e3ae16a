# SPDX-License-Identifier: Apache-2.0
# Sources that are compiled as one: nearly all of their time in the compiler is that of headers that their neighbours
# include, too. All unit and contract tests take 76 s of one core instead of 250 (g++ 12, -O0), the command's files for
# reports 28 s instead of 80. One changed file is compiled slower so: it is on for CI and packages alone.
option(CUTRACE_COMPILE_TOGETHER "Compile neighbours among tests and the command's files as one: quicker as a whole" OFF)
mark_as_advanced(CUTRACE_COMPILE_TOGETHER)

# cutrace_compile_together(<target> [<group> <regex>]...): its sources whose path matches are one translation unit. Each
# file of tests has a namespace of its name, so that its helpers clash with no others. To be called in the target's
# folder.
function(cutrace_compile_together target)
  if(NOT CUTRACE_COMPILE_TOGETHER OR CMAKE_VERSION VERSION_LESS 3.18)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  while(ARGN)
    list(POP_FRONT ARGN group regex)
    foreach(source IN LISTS sources)
      get_source_file_property(taken ${source} UNITY_GROUP)
      if(source MATCHES "${regex}" AND NOT taken)
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
      endif()
    endforeach()
  endwhile()
endfunction()
