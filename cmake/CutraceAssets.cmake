# SPDX-License-Identifier: Apache-2.0
# Makes cutrace/sinks/html/assets.hpp of the files in assets/html/: the page of the HTML sink as string constants.
# Included by the build, which then makes it anew whenever an asset changes. As a script it needs no compiler:
#   cmake -DOUTPUT=FILE -P cmake/CutraceAssets.cmake
# Each asset begins with a comment that holds its SPDX line. The comment is no part of the page: all that stands behind
# its last line is taken, byte for byte.
set(CUTRACE_HTML_ASSETS body.html style.css model.js timeline.js page.js input.js)
get_filename_component(cutrace_assets_root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

# cutrace_read_asset(<result> <file>): a raw string literal of the asset without its first comment.
function(cutrace_read_asset result file)
  set(delimiter html_asset)
  file(READ ${file} text)
  if(file MATCHES "\\.js$")
    string(REGEX MATCH "^(//[^\n]*\n)+" comment "${text}")
  elseif(file MATCHES "\\.css$")
    string(REGEX MATCH "^/\\*[^*]*\\*/\n" comment "${text}")
  else()
    string(REGEX MATCH "^<!--[^>]*-->\n" comment "${text}")
  endif()
  if(NOT comment MATCHES "SPDX-License-Identifier")
    message(FATAL_ERROR "cutrace: ${file} does not begin with a comment that holds its SPDX line")
  endif()
  string(LENGTH "${comment}" length)
  string(SUBSTRING "${text}" ${length} -1 text)
  string(FIND "${text}" ")${delimiter}\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "cutrace: ${file} holds )${delimiter}\", which ends its string in the generated header: change "
                        "the asset, or the delimiter in cmake/CutraceAssets.cmake")
  endif()
  set(${result} "R\"${delimiter}(${text})${delimiter}\"" PARENT_SCOPE)
endfunction()

# cutrace_make_html_assets(<output>): writes the header; an equal one keeps its time, so that nothing is compiled again.
function(cutrace_make_html_assets output)
  foreach(asset IN LISTS CUTRACE_HTML_ASSETS)
    string(REPLACE "." "_" name ${asset})  # style.css is html::style_css
    cutrace_read_asset(${name} ${cutrace_assets_root}/assets/html/${asset})
  endforeach()
  configure_file(${cutrace_assets_root}/cmake/html_assets.hpp.in ${output} @ONLY)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  if(NOT OUTPUT)
    message(FATAL_ERROR "cutrace: say where the header goes: cmake -DOUTPUT=FILE -P cmake/CutraceAssets.cmake")
  endif()
  get_filename_component(OUTPUT ${OUTPUT} ABSOLUTE)
  cutrace_make_html_assets(${OUTPUT})
else()
  set(CUTRACE_GENERATED_INCLUDE_DIR ${PROJECT_BINARY_DIR}/include)
  cutrace_make_html_assets(${CUTRACE_GENERATED_INCLUDE_DIR}/cutrace/sinks/html/assets.hpp)
  foreach(asset IN LISTS CUTRACE_HTML_ASSETS)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${cutrace_assets_root}/assets/html/${asset})
  endforeach()
endif()
