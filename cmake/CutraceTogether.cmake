# SPDX-License-Identifier: Apache-2.0
# Sources that are compiled as one: nearly all of their time in the compiler is that of headers that their neighbours
# include, too. All unit and contract tests take 76 s of one core instead of 250 (g++ 12, -O0), the files of the command
# that report 28 instead of 80. What is changed alone is compiled slower, so it is on in the presets of CI only.
option(CUTRACE_COMPILE_TOGETHER "Compile neighbours among tests and the command's files as one: quicker as a whole" OFF)
mark_as_advanced(CUTRACE_COMPILE_TOGETHER)

# cutrace_compile_together(<target> [<group> <regex>]...): its sources whose path matches are one translation unit. Files
# of tests have a namespace of their own name each, so that their helpers meet no others. (In the folder of the target.)
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
