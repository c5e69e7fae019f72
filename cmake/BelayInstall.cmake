# The version header, and what `cmake --install` puts where. Users write
#   find_package(belay REQUIRED)
#   target_link_libraries(program PRIVATE belay::belay)
# A component of the installation is a Debian package: cmake/BelayPackages.cmake.
include(CMakePackageConfigHelpers)

configure_file(${PROJECT_SOURCE_DIR}/include/belay/version.h.in
               ${PROJECT_BINARY_DIR}/include/belay/version.h @ONLY)

# So that MPI and HDF5 outside the system folders are found at run time. What is
# installed is linked with its final RUNPATH: otherwise CMake ends the one in the
# build folder with an empty element, for which the loader takes the current
# directory.
set_target_properties(belay read_hdf5 PROPERTIES
  INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)

set(BELAY_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/belay)
install(TARGETS belay EXPORT belayTargets
        LIBRARY COMPONENT library NAMELINK_COMPONENT development
        ARCHIVE COMPONENT development)
install(TARGETS read_hdf5 RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/belay
        COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/belay
                  ${PROJECT_BINARY_DIR}/include/belay
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN *.h)
# The pages that headers refer to, as docs/NAME.md.
include(BelayPages)
install(EXPORT belayTargets NAMESPACE belay::
        DESTINATION ${BELAY_CMAKE_DIR} COMPONENT development)

if(TARGET belay_static)
  install(TARGETS belay_static EXPORT belayStaticTargets
          ARCHIVE COMPONENT development)
  install(EXPORT belayStaticTargets NAMESPACE belay::
          DESTINATION ${BELAY_CMAKE_DIR} COMPONENT development)
endif()

# A static belay leaves HDF5, ISA-L and xxHash to the program that links it.
get_target_property(belay_type belay TYPE)
if(belay_type STREQUAL "STATIC_LIBRARY")
  set(BELAY_IS_STATIC TRUE)
else()
  set(BELAY_IS_STATIC FALSE)
endif()
configure_package_config_file(cmake/belayConfig.cmake.in
  ${PROJECT_BINARY_DIR}/belayConfig.cmake
  INSTALL_DESTINATION ${BELAY_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/belayConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/belayConfig.cmake
              ${PROJECT_BINARY_DIR}/belayConfigVersion.cmake
        DESTINATION ${BELAY_CMAKE_DIR} COMPONENT development)

# For programs that are built without CMake:
#   mpicxx -std=c++20 main.cc $(pkg-config --cflags --libs belay)
# MPI comes from the compiler. What only a static belay needs is private where
# there is a shared one, for --static; it is no package that is required, since
# programs with the shared one would need it too.
set(BELAY_PC_REQUIRES absl_status absl_statusor absl_inlined_vector absl_strings)
set(private_requires absl_function_ref absl_time absl_flat_hash_map absl_hash)
set(private_libs ${HDF5_LIBRARIES} ${ISAL_LDFLAGS} ${XXHASH_LDFLAGS}
    ${RE2_LDFLAGS} -lz -pthread)
if(BELAY_IS_STATIC)
  list(APPEND BELAY_PC_REQUIRES ${private_requires})
  set(BELAY_PC_LIBS ${private_libs})
  set(private_requires)
  set(private_libs)
endif()
list(JOIN BELAY_PC_REQUIRES " " BELAY_PC_REQUIRES)
list(JOIN BELAY_PC_LIBS " " BELAY_PC_LIBS)
list(JOIN private_requires " " BELAY_PC_PRIVATE_REQUIRES)
list(JOIN private_libs " " BELAY_PC_PRIVATE_LIBS)
# Found from where the file lies: `cmake --install --prefix` chooses that.
set(BELAY_PC_DIR ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH BELAY_PC_PREFIX ${BELAY_PC_DIR} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH BELAY_PC_INCLUDEDIR
     ${BELAY_PC_DIR} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/belay.pc.in ${PROJECT_BINARY_DIR}/belay.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/belay.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
