# SPDX-License-Identifier: Apache-2.0
# Run by CPack on the folders of the packages before they are packed: what Debian wants in each package besides what is
# installed anyway, and one time for all files (SOURCE_DATE_EPOCH), so that the same source gives the same bytes.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  message(FATAL_ERROR "cutrace: SOURCE_DATE_EPOCH is not set; scripts/packages sets it")
endif()
string(TIMESTAMP date "%Y-%m-%d" UTC)  # of SOURCE_DATE_EPOCH
execute_process(COMMAND date -R -u -d "@$ENV{SOURCE_DATE_EPOCH}" OUTPUT_VARIABLE mail_date
                OUTPUT_STRIP_TRAILING_WHITESPACE)

function(compress from to)
  execute_process(COMMAND gzip -9nc ${from} OUTPUT_FILE ${to} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "cutrace: gzip failed")
  endif()
endfunction()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} name)
  set(package ${CPACK_DEBIAN_${name}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
  set(documents ${root}/share/doc/${package})
  file(MAKE_DIRECTORY ${documents})
  file(REMOVE ${documents}/LICENSE ${documents}/CHANGELOG.md)  # copyright and changelog.gz have them
  file(COPY ${CPACK_CUTRACE_ROOT}/cmake/debian/copyright DESTINATION ${documents})
  compress(${CPACK_CUTRACE_ROOT}/CHANGELOG.md ${documents}/changelog.gz)
  file(WRITE ${documents}/changelog.Debian
       "cutrace (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium\n\n"
       "  * Packages made by scripts/packages of the source archive.\n\n"
       " -- ${CPACK_PACKAGE_CONTACT}  ${mail_date}\n")
  compress(${documents}/changelog.Debian ${documents}/changelog.Debian.gz)
  file(REMOVE ${documents}/changelog.Debian)
  set(overrides ${CPACK_CUTRACE_ROOT}/cmake/debian/${package}.lintian-overrides)
  if(EXISTS ${overrides})
    file(MAKE_DIRECTORY ${root}/share/lintian/overrides)
    configure_file(${overrides} ${root}/share/lintian/overrides/${package} COPYONLY)
  endif()
  file(GLOB pages ${root}/share/man/man1/*.1)
  foreach(page IN LISTS pages)
    compress(${page} ${page}.gz)
    file(REMOVE ${page})
  endforeach()
  execute_process(COMMAND find ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component} -type d -exec chmod 755 {} +)
  execute_process(COMMAND find ${root}/share -type f -exec chmod 644 {} +)
  execute_process(COMMAND find ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component} -depth
                          -exec touch -h -d "@$ENV{SOURCE_DATE_EPOCH}" {} +)
endforeach()
