# SPDX-License-Identifier: Apache-2.0
# The table of all CUDA functions, cutrace/cupti/cuda_functions.hpp, generated from the toolkit's own headers. Part of
# the package too: an installation that was built without these headers has no table, and makes it where they are.

# cutrace_add_cupti_table(<codegen folder> <include folders of cutrace> <output folder>): the target
# cutrace_cuda_functions, which writes <output folder>/cutrace/cupti/cuda_functions.hpp. Needs what FindCUPTI sets.
#
# Two steps: the generator reads the text of the headers and writes a probe; the probe, compiled against the same
# headers so that the compiler computes sizes and offsets, writes the table.
function(cutrace_add_cupti_table codegen include_folders output)
  set(table ${output}/cutrace/cupti/cuda_functions.hpp)
  file(MAKE_DIRECTORY ${output})  # an include folder must be there when it is named
  set(probe_source ${CMAKE_CURRENT_BINARY_DIR}/cutrace_function_probe.cpp)
  file(GLOB cuda_header_files ${CUPTI_INCLUDE_DIR}/cupti_*_cbid.h ${CUPTI_INCLUDE_DIR}/generated_*_meta.h
       ${CUPTI_CUDA_INCLUDE_DIR}/cuda.h ${CUPTI_CUDA_INCLUDE_DIR}/driver_types.h)

  add_executable(cutrace_generate_functions EXCLUDE_FROM_ALL ${codegen}/generate_functions.cpp)
  target_compile_features(cutrace_generate_functions PRIVATE cxx_std_17)
  add_custom_command(OUTPUT ${probe_source}
                     COMMAND cutrace_generate_functions ${probe_source} ${CUPTI_INCLUDE_DIRS}
                     DEPENDS cutrace_generate_functions ${cuda_header_files}
                     COMMENT "Reading the functions of CUDA's headers" VERBATIM)

  add_executable(cutrace_function_probe EXCLUDE_FROM_ALL ${probe_source})
  target_compile_features(cutrace_function_probe PRIVATE cxx_std_17)
  target_include_directories(cutrace_function_probe PRIVATE ${codegen} ${include_folders})
  target_link_libraries(cutrace_function_probe PRIVATE CUPTI::headers)
  # Optimising a program that runs once costs more than it saves.
  target_compile_options(cutrace_function_probe PRIVATE -O0)
  add_custom_command(OUTPUT ${table}
                     COMMAND ${CMAKE_COMMAND} -E make_directory ${output}/cutrace/cupti
                     COMMAND cutrace_function_probe ${table}
                     DEPENDS cutrace_function_probe
                     COMMENT "Writing the table of CUDA functions" VERBATIM)
  set(all "")
  if(CUTRACE_INSTALL)
    set(all ALL)  # the table belongs to the package
  endif()
  add_custom_target(cutrace_cuda_functions ${all} DEPENDS ${table})
endfunction()
