# SPDX-License-Identifier: Apache-2.0
# Binary packages by CPack, as scripts/packages asks for them: for Debian, one for programs (headers, static libraries),
# one for the libraries that get into programs, one for the command with its documents. Only where this is the project
# itself: CPack's variables belong to the project around it otherwise.
if(NOT CUTRACE_TOP_LEVEL OR NOT CUTRACE_INSTALL)
  return()
endif()
set(CUTRACE_PACKAGE_CONTACT "cutrace's maintainers <maintainers@cutrace.invalid>" CACHE STRING
    "Who made the packages: their field Maintainer")
option(CUTRACE_SHLIBDEPS "Packages name the shared libraries that they need, by dpkg-shlibdeps" ON)
mark_as_advanced(CUTRACE_PACKAGE_CONTACT CUTRACE_SHLIBDEPS)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cutrace)
set(CPACK_PACKAGE_CONTACT ${CUTRACE_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL development)
if(TARGET cutrace_tool)
  list(APPEND CPACK_COMPONENTS_ALL runtime tools)
endif()
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/CutraceDebian.cmake)
set(CPACK_CUTRACE_ROOT ${PROJECT_SOURCE_DIR})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcutrace-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libfmt-dev (>= 8.1), libboost-dev (>= 1.66)")
if(CUTRACE_WITH_PERFETTO)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS libprotozero-dev)
endif()
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"timeline of a program's stages, CUDA calls and GPU work (development)
 Headers, static libraries and CMake and pkg-config files of cutrace. A program
 marks its stages; the trace shows which stage and which request each piece of
 GPU work belongs to.")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME cutrace-runtime)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ${CUTRACE_SHLIBDEPS})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/triggers)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
"timeline of CUDA calls and GPU work (libraries for traced programs)
 The libraries of cutrace that get into programs which know nothing of it:
 loaded by NVIDIA's driver (CUDA_INJECTION64_PATH) or by LD_PRELOAD.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME cutrace)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ${CUTRACE_SHLIBDEPS})
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "cutrace-runtime (= ${PROJECT_VERSION}-1)")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS libcutrace-dev)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION
"timeline of a program's stages, CUDA calls and GPU work (command)
 The command cutrace runs a CUDA program and shows its driver calls and the
 GPU's work on one timeline, says where the time of a trace went and what to
 fix first, why a request was slow, and what became slower between runs.")
include(CPack)
