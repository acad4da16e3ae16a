# SPDX-License-Identifier: Apache-2.0
# Manual pages and completion scripts, which the command makes of its own help. Included where its target is made.
if(CUTRACE_SANITIZE)
  return()
endif()
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "cutrace: the command cannot run here (no CMAKE_CROSSCOMPILING_EMULATOR), so it makes no manual pages "
                 "and no completion scripts")
  return()
endif()

# The date on the pages is that of the changelog, so that all builds of a source archive make the same ones.
file(TIMESTAMP ${PROJECT_SOURCE_DIR}/CHANGELOG.md manual_date "%Y-%m-%d" UTC)
set(manuals ${PROJECT_BINARY_DIR}/manuals)
file(MAKE_DIRECTORY ${manuals})
set(made "")
function(cutrace_make_page file)  # <file> <arguments of the command...>
  add_custom_command(OUTPUT ${manuals}/${file} COMMAND cutrace_tool ${ARGN} > ${manuals}/${file}
                     DEPENDS cutrace_tool VERBATIM)
  set(made ${made} ${manuals}/${file} PARENT_SCOPE)
endfunction()

# A command is a pair of files <name>_command; `man` has no page.
file(GLOB command_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/cutrace/*_command.cpp)
cutrace_make_page(cutrace.1 man --date ${manual_date})
foreach(file IN LISTS command_files)
  get_filename_component(command ${file} NAME)
  string(REPLACE "_command.cpp" "" command ${command})
  if(NOT command STREQUAL "man")
    cutrace_make_page(cutrace-${command}.1 man ${command} --date ${manual_date})
  endif()
endforeach()
set(pages ${made})
foreach(shell bash zsh fish)
  cutrace_make_page(completion.${shell} completion ${shell})
endforeach()
add_custom_target(cutrace_manuals ALL DEPENDS ${made})

install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
install(FILES ${manuals}/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME cutrace COMPONENT tools)
set(CUTRACE_ZSH_COMPLETIONS ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "Folder of zsh's completion scripts")
mark_as_advanced(CUTRACE_ZSH_COMPLETIONS)
install(FILES ${manuals}/completion.zsh DESTINATION ${CUTRACE_ZSH_COMPLETIONS} RENAME _cutrace COMPONENT tools)
install(FILES ${manuals}/completion.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
        RENAME cutrace.fish COMPONENT tools)
