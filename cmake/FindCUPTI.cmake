# SPDX-License-Identifier: Apache-2.0
# Finds the headers of CUPTI and of the CUDA driver API. Never a library: libcupti is opened at run time.
#
# Looks, in this order, at CUPTI_ROOT, CUDAToolkit_ROOT (variables or environment), CUDA_HOME and CUDA_PATH
# (environment), the toolkit of the nvcc on PATH, an active virtual or conda environment, the usual places. Below each:
#   include                        Debian's packages, toolkits that merge CUPTI in
#   extras/CUPTI/include           NVIDIA's installers
#   targets/<arch>-linux/include   the same, cross-compilation and conda layout
#   */include                      pip: <root> is site-packages/nvidia, each wheel has its folder
#
# Result: CUPTI_FOUND, CUPTI_INCLUDE_DIRS, CUPTI_API_VERSION (130001, or 18 in CUDA 11.8 and 12.0), CUPTI_VERSION (text,
# the CUDA release: 13.0.1, 11.8), CUPTI_NOT_FOUND_REASON, and the imported target CUPTI::headers.

set(cupti_roots ${CUPTI_ROOT} $ENV{CUPTI_ROOT} ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_HOME} $ENV{CUDA_PATH})
find_program(CUPTI_NVCC nvcc)
mark_as_advanced(CUPTI_NVCC)
if(CUPTI_NVCC)
  get_filename_component(cupti_nvcc ${CUPTI_NVCC} REALPATH)
  get_filename_component(cupti_nvcc ${cupti_nvcc} DIRECTORY)
  get_filename_component(cupti_nvcc ${cupti_nvcc} DIRECTORY)
  list(APPEND cupti_roots ${cupti_nvcc})
endif()
foreach(environment VIRTUAL_ENV CONDA_PREFIX)
  if(DEFINED ENV{${environment}})
    file(GLOB cupti_wheels $ENV{${environment}}/lib/python3*/site-packages/nvidia)
    list(APPEND cupti_roots ${cupti_wheels} $ENV{${environment}})
  endif()
endforeach()
list(APPEND cupti_roots /usr/local/cuda /opt/cuda /usr/lib/cuda /usr)

set(cupti_dirs "")
foreach(root IN LISTS cupti_roots)
  file(TO_CMAKE_PATH "${root}" root)
  list(APPEND cupti_dirs ${root}/include ${root}/extras/CUPTI/include)
  file(GLOB cupti_nested ${root}/targets/*-linux/include ${root}/*/include/cupti.h ${root}/*/include/cuda.h
       ${root}/*/include/crt/host_defines.h)
  list(TRANSFORM cupti_nested REPLACE "/(crt/)?(cupti|cuda|host_defines)\\.h$" "")
  if(NOT root STREQUAL "/usr")  # there, */include would reach into unrelated trees
    list(APPEND cupti_dirs ${cupti_nested})
  endif()
endforeach()
list(REMOVE_DUPLICATES cupti_dirs)

find_path(CUPTI_INCLUDE_DIR cupti.h PATHS ${cupti_dirs} NO_DEFAULT_PATH DOC "Folder of cupti.h")
find_path(CUPTI_CUDA_INCLUDE_DIR cuda.h PATHS ${cupti_dirs} NO_DEFAULT_PATH DOC "Folder of cuda.h")
find_path(CUPTI_CRT_INCLUDE_DIR crt/host_defines.h PATHS ${cupti_dirs} NO_DEFAULT_PATH DOC "Folder of crt/host_defines.h")
mark_as_advanced(CUPTI_INCLUDE_DIR CUPTI_CUDA_INCLUDE_DIR CUPTI_CRT_INCLUDE_DIR)

set(CUPTI_NOT_FOUND_REASON "")
if(NOT CUPTI_CUDA_INCLUDE_DIR)
  list(APPEND CUPTI_NOT_FOUND_REASON "cuda.h not found")
endif()
if(NOT CUPTI_INCLUDE_DIR)
  list(APPEND CUPTI_NOT_FOUND_REASON "cupti.h not found")
endif()
if(NOT CUPTI_CRT_INCLUDE_DIR)
  list(APPEND CUPTI_NOT_FOUND_REASON "crt/host_defines.h not found")
endif()
string(REPLACE ";" ", " CUPTI_NOT_FOUND_REASON "${CUPTI_NOT_FOUND_REASON}")

set(CUPTI_API_VERSION "")
set(CUPTI_VERSION "")
if(CUPTI_INCLUDE_DIR AND EXISTS ${CUPTI_INCLUDE_DIR}/cupti_version.h)
  file(STRINGS ${CUPTI_INCLUDE_DIR}/cupti_version.h cupti_line REGEX "^#define CUPTI_API_VERSION +[0-9]+")
  string(REGEX MATCH "[0-9]+" CUPTI_API_VERSION "${cupti_line}")
  # From CUDA 13.0 on the number names the toolkit (130001: 13.0, update 1); before, it only counts up, and more than one
  # release may have the same. There cuda.h has it (11080: 11.8).
  if(CUPTI_API_VERSION GREATER 100000)
    math(EXPR cupti_major "${CUPTI_API_VERSION} / 10000")
    math(EXPR cupti_minor "${CUPTI_API_VERSION} / 100 % 100")
    math(EXPR cupti_patch "${CUPTI_API_VERSION} % 100")
    set(CUPTI_VERSION ${cupti_major}.${cupti_minor}.${cupti_patch})
  elseif(CUPTI_CUDA_INCLUDE_DIR)
    file(STRINGS ${CUPTI_CUDA_INCLUDE_DIR}/cuda.h cupti_line REGEX "^#define CUDA_VERSION +[0-9]+")
    string(REGEX MATCH "[0-9]+" cupti_cuda "${cupti_line}")
    if(cupti_cuda)
      math(EXPR cupti_major "${cupti_cuda} / 1000")
      math(EXPR cupti_minor "${cupti_cuda} / 10 % 100")
      set(CUPTI_VERSION ${cupti_major}.${cupti_minor})
    endif()
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUPTI REQUIRED_VARS CUPTI_INCLUDE_DIR CUPTI_CUDA_INCLUDE_DIR CUPTI_CRT_INCLUDE_DIR
                                  VERSION_VAR CUPTI_VERSION)
if(CUPTI_FOUND)
  set(CUPTI_INCLUDE_DIRS ${CUPTI_CUDA_INCLUDE_DIR} ${CUPTI_INCLUDE_DIR} ${CUPTI_CRT_INCLUDE_DIR})
  list(REMOVE_DUPLICATES CUPTI_INCLUDE_DIRS)
  if(NOT TARGET CUPTI::headers)
    add_library(CUPTI::headers INTERFACE IMPORTED GLOBAL)
    set_target_properties(CUPTI::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${CUPTI_INCLUDE_DIRS}")
  endif()
endif()
