# SPDX-License-Identifier: Apache-2.0
# The package: one export set for each component, so that a consumer loads only those whose needs it can meet. The
# build tree gets the same package files, so that it can be used without installing.
include(CMakePackageConfigHelpers)

set(CUTRACE_PACKAGE_COMPONENTS marker sim_headers)
foreach(component header_only cutrace cupti sim)
  if(TARGET cutrace_${component})
    list(APPEND CUTRACE_PACKAGE_COMPONENTS ${component})
  endif()
endforeach()

# cutrace_configure_package(<output>): cutraceConfig.cmake for folders that the variables below name. The package knows
# which find module it needs, and which components this build could make.
function(cutrace_configure_package output)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cutraceConfig.cmake.in ${output}
                                INSTALL_DESTINATION ${CUTRACE_PACKAGE_INSTALL_DIR} NO_SET_AND_CHECK_MACRO)
endfunction()
set(CUTRACE_MODULES FindCUPTI.cmake CutraceArchive.cmake CutraceCuptiTable.cmake CutraceFit.cmake)
set(CUTRACE_PACKAGE_MODULES ${PROJECT_SOURCE_DIR}/cmake)
set(CUTRACE_PACKAGE_SOURCES ${PROJECT_SOURCE_DIR}/cmake)
set(CUTRACE_PACKAGE_CODEGEN ${PROJECT_SOURCE_DIR}/backends/cupti/codegen)
set(CUTRACE_PACKAGE_INCLUDES ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/backends/cupti/include)
if(TARGET cutrace_cupti)
  list(APPEND CUTRACE_PACKAGE_INCLUDES ${PROJECT_BINARY_DIR}/backends/cupti/include)  # where the table is made
endif()
set(CUTRACE_PACKAGE_ARCHIVE ${PROJECT_BINARY_DIR}/libcutrace.a)
cutrace_configure_package(${PROJECT_BINARY_DIR}/cutraceConfig.cmake)
set(CUTRACE_PACKAGE_MODULES "\${CMAKE_CURRENT_LIST_DIR}")
set(CUTRACE_PACKAGE_SOURCES "\${CMAKE_CURRENT_LIST_DIR}")
set(CUTRACE_PACKAGE_CODEGEN "\${CMAKE_CURRENT_LIST_DIR}/codegen")
cutrace_installed_path(CUTRACE_PACKAGE_INCLUDES "\${PACKAGE_PREFIX_DIR}" ${CUTRACE_INCLUDE_INSTALL_DIR})
cutrace_installed_path(CUTRACE_PACKAGE_ARCHIVE "\${PACKAGE_PREFIX_DIR}" ${CMAKE_INSTALL_LIBDIR}/libcutrace.a)
cutrace_configure_package(${PROJECT_BINARY_DIR}/package/cutraceConfig.cmake)

# Before 1.0 each minor version may change the API. Headers fit every processor, and where the archive does not fit, the
# package falls back to them.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cutraceConfigVersion.cmake COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
foreach(component IN LISTS CUTRACE_PACKAGE_COMPONENTS)
  set_target_properties(cutrace_${component} PROPERTIES EXPORT_NAME ${component})
  if(CUTRACE_INSTALL)
    install(TARGETS cutrace_${component} EXPORT cutrace_${component}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
    set(exported EXPORT cutrace_${component})
  else()
    set(exported TARGETS cutrace_${component})
  endif()
  export(${exported} NAMESPACE cutrace:: FILE ${PROJECT_BINARY_DIR}/cutrace_${component}Targets.cmake)
endforeach()

if(NOT CUTRACE_INSTALL)
  return()
endif()

foreach(component IN LISTS CUTRACE_PACKAGE_COMPONENTS)
  install(EXPORT cutrace_${component} NAMESPACE cutrace:: FILE cutrace_${component}Targets.cmake
          DESTINATION ${CUTRACE_PACKAGE_INSTALL_DIR} COMPONENT development)
endforeach()
# `cmake --install --strip` leaves archives alone, since they need their symbols; debug information they do not need.
cutrace_installed_path(archive_folder "\${CMAKE_INSTALL_PREFIX}" ${CMAKE_INSTALL_LIBDIR})
foreach(component cutrace cupti sim)
  if(TARGET cutrace_${component} AND CMAKE_STRIP)
    install(CODE "if(CMAKE_INSTALL_DO_STRIP)
  execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug
                  \"\$ENV{DESTDIR}${archive_folder}/$<TARGET_FILE_NAME:cutrace_${component}>\")
endif()" COMPONENT development)
  endif()
endforeach()

install(FILES ${PROJECT_BINARY_DIR}/package/cutraceConfig.cmake ${PROJECT_BINARY_DIR}/cutraceConfigVersion.cmake
        DESTINATION ${CUTRACE_PACKAGE_INSTALL_DIR} COMPONENT development)
# Sources for cutrace::header_only, and for the CUPTI backend where this build has none.
foreach(file IN LISTS CUTRACE_MODULES CUTRACE_SOURCES ITEMS cutrace_cupti.cpp cutrace_sim.cpp)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/${file} DESTINATION ${CUTRACE_PACKAGE_INSTALL_DIR} COMPONENT development)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/backends/cupti/codegen DESTINATION ${CUTRACE_PACKAGE_INSTALL_DIR}
        COMPONENT development)
# Documents, with the links between them whole.
foreach(file README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE)
  install(FILES ${PROJECT_SOURCE_DIR}/${file} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tools)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT tools FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ PATTERN __pycache__ EXCLUDE)

# Headers of the backends go below one include folder, so that the installed tree looks like the include names.
foreach(folder ${PROJECT_SOURCE_DIR}/include ${CUTRACE_GENERATED_INCLUDE_DIR} ${PROJECT_SOURCE_DIR}/backends/cupti/include
               ${PROJECT_SOURCE_DIR}/backends/sim/include)
  install(DIRECTORY ${folder}/ DESTINATION ${CUTRACE_INCLUDE_INSTALL_DIR} COMPONENT development
          FILES_MATCHING PATTERN *.hpp)
endforeach()
if(TARGET cutrace_cupti)
  install(FILES ${PROJECT_BINARY_DIR}/backends/cupti/include/cutrace/cupti/cuda_functions.hpp
          DESTINATION ${CUTRACE_INCLUDE_INSTALL_DIR}/cutrace/cupti COMPONENT development)
endif()

# pkg-config: the compiled library with what this build has of CUPTI, headers alone, markers alone.
file(RELATIVE_PATH CUTRACE_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
cutrace_installed_path(CUTRACE_PC_INCLUDES "\${prefix}" ${CUTRACE_INCLUDE_INSTALL_DIR})
set(CUTRACE_PC_DEFINITIONS -DCUTRACE_COMPILED=1)
set(CUTRACE_PC_LIBS "-Wl,-u,cutrace_runtime_${cutrace_version_name} -lcutrace")
if(TARGET cutrace_cupti)
  string(APPEND CUTRACE_PC_DEFINITIONS " -DCUTRACE_COMPILED_CUPTI=1")
  string(APPEND CUTRACE_PC_LIBS " -Wl,-u,cutrace_cupti_${cutrace_version_name} -lcutrace_cupti")
endif()
foreach(package cutrace cutrace-header-only cutrace-marker)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endforeach()
