# The pages of docs as they are installed, in share/doc/belay: links to headers lead
# to the installed ones, those to examples and batch scripts to copies beside the
# pages. The rest of the source tree is not installed, so links to it become text.
set(pages ${PROJECT_BINARY_DIR}/pages)
set(destination ${CMAKE_INSTALL_DATADIR}/doc/belay)
file(RELATIVE_PATH headers /${destination} /${CMAKE_INSTALL_INCLUDEDIR})

file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/docs
     ${PROJECT_SOURCE_DIR}/docs/*.md)
foreach(page IN LISTS sources)
  file(READ ${PROJECT_SOURCE_DIR}/docs/${page} text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               ${PROJECT_SOURCE_DIR}/docs/${page})
  set(up "")  # from the page to share/doc/belay
  set(root "\\.\\./")
  if(page MATCHES "/")
    set(up "../")
    set(root "\\.\\./\\.\\./")
  endif()
  string(REGEX REPLACE "\\]\\(${root}include/" "](${up}${headers}/" text "${text}")
  string(REGEX REPLACE "\\]\\(${root}(examples|slurm/[a-z_]+\\.sbatch)"
         "](${up}\\1" text "${text}")
  string(REGEX REPLACE
         "\\[([^]]+)\\]\\(${root}(src|tests|mpi_tests|slurm)[^)]*\\)" "\\1"
         text "${text}")
  file(WRITE ${pages}/${page} "${text}")
endforeach()

install(DIRECTORY ${pages}/ DESTINATION ${destination} COMPONENT development
        FILES_MATCHING PATTERN *.md)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${destination}
        COMPONENT development
        PATTERN *_test.sh EXCLUDE PATTERN CMakeLists.txt EXCLUDE)
file(GLOB scripts ${PROJECT_SOURCE_DIR}/slurm/*.sbatch)
install(FILES ${scripts} DESTINATION ${destination}/slurm COMPONENT development)
