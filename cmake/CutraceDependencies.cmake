# SPDX-License-Identifier: Apache-2.0
# Finds what the library needs. Nothing is downloaded. Only the full library needs anything: a project that wants
# nothing but markers may lack all of it.
set(CUTRACE_MISSING "")

# Finds one package that gives one target. Problem: what find_package makes in a subdirectory is not visible to the
# project above it, which links our targets. Solution: what we found ourselves becomes global.
macro(cutrace_find_dependency target missing)
  if(NOT TARGET ${target})
    find_package(${ARGN} QUIET)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES IMPORTED_GLOBAL TRUE)
    else()
      list(APPEND CUTRACE_MISSING "${missing}")
    endif()
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
cutrace_find_dependency(Threads::Threads "a threads library" Threads)
cutrace_find_dependency(fmt::fmt "fmt >= 8.1 (Debian: libfmt-dev)" fmt 8.1)
# Boost's own package first: CMake 3.30 and later warn of the module (CMP0167), which is for Boosts that have none.
if(NOT TARGET Boost::headers)
  find_package(Boost 1.66 QUIET CONFIG)
  if(TARGET Boost::headers)
    set_target_properties(Boost::headers PROPERTIES IMPORTED_GLOBAL TRUE)
  endif()
endif()
cutrace_find_dependency(Boost::headers "Boost headers >= 1.66 (Debian: libboost-dev)" Boost 1.66)

# CUPTI and CUDA: headers only, libcupti is opened at run time by the traced program.
if(CUTRACE_CUPTI STREQUAL "OFF")
  set(CUPTI_FOUND FALSE)
  message(STATUS "cutrace: CUTRACE_CUPTI=OFF leaves out the CUPTI backend, the stand-in driver and the GPU programs")
else()
  find_package(CUPTI QUIET)
  if(CUPTI_FOUND)
    message(STATUS "cutrace: headers of CUDA ${CUPTI_VERSION} with CUPTI in ${CUPTI_INCLUDE_DIRS}")
  elseif(CUTRACE_CUPTI STREQUAL "ON")
    message(FATAL_ERROR "cutrace: CUTRACE_CUPTI=ON, but the headers are missing: ${CUPTI_NOT_FOUND_REASON}\n"
                        "Set CUDA_HOME (or CUDAToolkit_ROOT) to the toolkit, or run scripts/setup --with-cuda.")
  else()
    message(STATUS "cutrace: no CUDA with CUPTI headers (${CUPTI_NOT_FOUND_REASON}): left out are the CUPTI backend, "
                   "the stand-in driver and the GPU programs; stages and the simulated GPU remain")
  endif()
endif()

# protozero, headers only: the sink for Perfetto's protobuf traces. Without it the sink's name says what is missing.
set(CUTRACE_WITH_PERFETTO OFF)
if(NOT CUTRACE_PERFETTO STREQUAL "OFF")
  find_path(CUTRACE_PROTOZERO_INCLUDE_DIR protozero/pbf_writer.hpp DOC "Folder of protozero's headers, optional")
  mark_as_advanced(CUTRACE_PROTOZERO_INCLUDE_DIR)
  if(CUTRACE_PROTOZERO_INCLUDE_DIR)
    set(CUTRACE_WITH_PERFETTO ON)
  elseif(CUTRACE_PERFETTO STREQUAL "ON")
    message(FATAL_ERROR "cutrace: CUTRACE_PERFETTO=ON, but protozero's headers are missing (Debian: libprotozero-dev). "
                        "scripts/setup installs them.")
  else()
    message(STATUS "cutrace: no protozero (Debian: libprotozero-dev), so the sink 'perfetto' is left out")
  endif()
endif()

# nvcc compiles the kernels of examples and tests; the library itself never needs it, nor CMake's CUDA language.
if(NOT CUTRACE_CUPTI STREQUAL "OFF")
  find_program(CUTRACE_NVCC nvcc HINTS ${CUDAToolkit_ROOT} ENV CUDA_HOME ENV CUDA_PATH ENV CUDAToolkit_ROOT
               PATHS /usr/local/cuda PATH_SUFFIXES bin DOC "CUDA compiler, optional")
endif()
