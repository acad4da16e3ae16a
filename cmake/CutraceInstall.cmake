# SPDX-License-Identifier: Apache-2.0
# The package: one export set for each component, so that a consumer loads only those whose needs it can meet. The
# build tree gets the same package files, so that it can be used without installing.
include(CMakePackageConfigHelpers)

set(CUTRACE_PACKAGE_COMPONENTS marker)
foreach(component cutrace cupti sim)
  if(TARGET cutrace_${component})
    list(APPEND CUTRACE_PACKAGE_COMPONENTS ${component})
  endif()
endforeach()

# The package knows which find module it needs, and which components this build could make.
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cutraceConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/cutraceConfig.cmake
                              INSTALL_DESTINATION ${CUTRACE_PACKAGE_INSTALL_DIR} NO_SET_AND_CHECK_MACRO)
# Before 1.0 each minor version may change the API.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cutraceConfigVersion.cmake COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
configure_file(${PROJECT_SOURCE_DIR}/cmake/FindCUPTI.cmake ${PROJECT_BINARY_DIR}/FindCUPTI.cmake COPYONLY)
foreach(component IN LISTS CUTRACE_PACKAGE_COMPONENTS)
  set_target_properties(cutrace_${component} PROPERTIES EXPORT_NAME ${component})
  install(TARGETS cutrace_${component} EXPORT cutrace_${component})
  export(EXPORT cutrace_${component} NAMESPACE cutrace::
         FILE ${PROJECT_BINARY_DIR}/cutrace_${component}Targets.cmake)
endforeach()

if(NOT CUTRACE_INSTALL)
  return()
endif()

foreach(component IN LISTS CUTRACE_PACKAGE_COMPONENTS)
  install(EXPORT cutrace_${component} NAMESPACE cutrace:: FILE cutrace_${component}Targets.cmake
          DESTINATION ${CUTRACE_PACKAGE_INSTALL_DIR})
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/cutraceConfig.cmake ${PROJECT_BINARY_DIR}/cutraceConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindCUPTI.cmake
        DESTINATION ${CUTRACE_PACKAGE_INSTALL_DIR})
list(TRANSFORM CUTRACE_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/cmake/ OUTPUT_VARIABLE cutrace_source_files)
install(FILES ${cutrace_source_files} DESTINATION ${CUTRACE_PACKAGE_INSTALL_DIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CUTRACE_INCLUDE_INSTALL_DIR} FILES_MATCHING PATTERN *.hpp)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Headers of the backends go below one include folder, so that the installed tree looks like the include names.
foreach(backend cupti sim)
  if(TARGET cutrace_${backend})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/backends/${backend}/include/ DESTINATION ${CUTRACE_INCLUDE_INSTALL_DIR}
            FILES_MATCHING PATTERN *.hpp)
  endif()
endforeach()
if(TARGET cutrace_cupti)
  install(FILES ${PROJECT_BINARY_DIR}/backends/cupti/include/cutrace_cuda_functions.hpp
          DESTINATION ${CUTRACE_INCLUDE_INSTALL_DIR})
endif()

file(RELATIVE_PATH CUTRACE_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/cmake/cutrace-marker.pc.in ${PROJECT_BINARY_DIR}/cutrace-marker.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cutrace-marker.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
