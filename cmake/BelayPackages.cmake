# Debian packages, one for each component that is installed: `./dev package` has
# CPack build them from what is built anyway.
set(packages ${PROJECT_SOURCE_DIR}/packaging/debian)
set(generated ${PROJECT_BINARY_DIR}/packages)
set(version ${PROJECT_VERSION})
set(same "(= ${version})")

set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_VERSION ${version})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has one of its own
set(CPACK_PACKAGE_CONTACT "The belay maintainers <belay@example.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PRE_BUILD_SCRIPTS ${packages}/finish.cmake)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# What the shared libraries need, as dpkg-shlibdeps finds it; belay's own, which
# are not installed yet, are named below.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
    ${PROJECT_BINARY_DIR}/src ${PROJECT_BINARY_DIR}/fortran)

# belay_package(COMPONENT NAME SECTION DEPENDS DESCRIPTION)
# The files of a component as the package NAME, with its licence.
macro(belay_package component name section depends description)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}")
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${description}")
  install(FILES ${packages}/copyright
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
          COMPONENT ${component})
endmacro()

# belay_package_library(COMPONENT NAME PACKAGE): programs that link libNAME.so
# depend on PACKAGE, and the cache of ld.so is renewed.
macro(belay_package_library component name package)
  string(TOUPPER ${component} upper)
  file(CONFIGURE OUTPUT ${generated}/${component}/shlibs @ONLY CONTENT
       "${name} ${PROJECT_VERSION_MAJOR} ${package} (>= ${version})\n")
  file(CONFIGURE OUTPUT ${generated}/${component}/triggers @ONLY CONTENT
       "activate-noawait ldconfig\n")
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA
      ${generated}/${component}/shlibs ${generated}/${component}/triggers)
endmacro()

set(library libbelay${PROJECT_VERSION_MAJOR})
belay_package(library ${library} libs ""
"checkpoints of MPI programs in parallel HDF5: library
belay saves and restores the distributed state of programs that run under
mpirun: arrays in any decomposition, per-rank data, replicated values
and objects. A checkpoint restores on another number of ranks.")
belay_package_library(library libbelay ${library})

belay_package(development libbelay-dev libdevel
"${library} ${same}, libopenmpi-dev, libabsl-dev"
"checkpoints of MPI programs in parallel HDF5: headers for C++ and C
The headers of belay, its documentation, and what CMake and pkg-config have to
know.")
# What the static library needs; Debian's HDF5 is linked with curl and OpenSSL.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "libhdf5-openmpi-dev, libisal-dev, libxxhash-dev, libre2-dev, zlib1g-dev, libcurl4-openssl-dev | libcurl-dev, libssl-dev, libaec-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libeigen3-dev, libbelay-fortran-dev")

if(TARGET belay_fortran)
  set(fortran_library libbelay-fortran${PROJECT_VERSION_MAJOR})
  belay_package(fortran_library ${fortran_library} libs "${library} ${same}"
"checkpoints of MPI programs in parallel HDF5: library for Fortran
What programs in Fortran call to save and restore with belay.")
  belay_package_library(fortran_library libbelay_fortran ${fortran_library})
  # Files of modules are for the compiler that has made them.
  belay_package(fortran_development libbelay-fortran-dev libdevel
"${fortran_library} ${same}, libbelay-dev ${same}, gfortran-mod-15"
"checkpoints of MPI programs in parallel HDF5: module for Fortran
The module belay for gfortran, with what CMake and pkg-config have to know.")
endif()

if(TARGET belay_command)
  # Without mpirun too, MPI_Init starts a daemon of openmpi-bin.
  belay_package(tools belay-tools science "${library} ${same}, openmpi-bin"
"checkpoints of MPI programs in parallel HDF5: command
The command belay lists, prints, compares, verifies, copies and converts the
checkpoints that programs have saved with belay.")
endif()

if(TARGET belay_python)
  # The module is for one version of Python.
  get_directory_property(minor DIRECTORY python DEFINITION Python_VERSION_MINOR)
  math(EXPR next "${minor} + 1")
  belay_package(python python3-belay python
"${library} ${same}, python3 (>= 3.${minor}), python3 (<< 3.${next}), python3-mpi4py, python3-numpy"
"checkpoints of MPI programs in parallel HDF5: Python package
Saves and restores NumPy arrays of programs that use mpi4py.")
  set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
      ${packages}/python/postinst ${packages}/python/prerm)
endif()

include(CPack)
