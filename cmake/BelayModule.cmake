# A module file for Environment Modules; it finds the prefix from where it lies
# itself, and is no part of the Debian packages:
#   module use PREFIX/share/modulefiles && module load belay
set(folder ${CMAKE_INSTALL_FULL_DATADIR}/modulefiles/belay)
file(RELATIVE_PATH BELAY_MODULE_PREFIX ${folder} ${CMAKE_INSTALL_PREFIX})
set(BELAY_MODULE_PYTHON "")
if(TARGET belay_python)
  get_directory_property(python DIRECTORY python DEFINITION BELAY_PYTHON_DIR)
  if(NOT IS_ABSOLUTE ${python})
    set(BELAY_MODULE_PYTHON "prepend-path PYTHONPATH $prefix/${python}")
  endif()
endif()
configure_file(packaging/module/belay.tcl.in
               ${PROJECT_BINARY_DIR}/modulefiles/belay @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/modulefiles/belay COMPONENT module
        DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/belay
        RENAME ${PROJECT_VERSION})
