# SPDX-License-Identifier: Apache-2.0
# Hardening of what is installed: of the command, which reads files that it must not trust, and of the shared libraries.
# Each flag is added only where the caller's flags do not set it. Shared libraries get RELRO and BIND_NOW alone,
# installed static ones nothing: what a stack protector costs in a launch's callback is for those who build them to
# choose.
option(CUTRACE_HARDENING "Stack protector, FORTIFY, RELRO and BIND_NOW, where the compiler's flags do not say" ON)
mark_as_advanced(CUTRACE_HARDENING)

string(TOUPPER "CMAKE_CXX_FLAGS_${CMAKE_BUILD_TYPE}" flags_of_type)
set(cutrace_callers_flags "${CMAKE_CXX_FLAGS} ${${flags_of_type}} ${CMAKE_EXE_LINKER_FLAGS} ${CMAKE_SHARED_LINKER_FLAGS}")

# cutrace_harden(<target>)
function(cutrace_harden target)
  if(NOT CUTRACE_HARDENING OR NOT CUTRACE_TOP_LEVEL OR CUTRACE_SANITIZE)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "SHARED_LIBRARY")  # see above: a shared library runs in the traced program, in each launch
    if(NOT cutrace_callers_flags MATCHES "stack-protector")
      target_compile_options(${target} PRIVATE -fstack-protector-strong)
    endif()
    if(NOT cutrace_callers_flags MATCHES "_FORTIFY_SOURCE")  # needs an optimising compiler
      target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
                                               $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
    endif()
  endif()
  if(type STREQUAL "STATIC_LIBRARY")
    return()
  endif()
  if(NOT cutrace_callers_flags MATCHES "-z,(no)?relro")
    target_link_options(${target} PRIVATE -Wl,-z,relro)
  endif()
  if(NOT cutrace_callers_flags MATCHES "-z,(now|lazy)")
    target_link_options(${target} PRIVATE -Wl,-z,now)
  endif()
endfunction()
