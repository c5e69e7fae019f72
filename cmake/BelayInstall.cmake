# The version header, and what `cmake --install` puts where. Users write
#   find_package(belay REQUIRED)
#   target_link_libraries(program PRIVATE belay::belay)
include(CMakePackageConfigHelpers)

configure_file(${PROJECT_SOURCE_DIR}/include/belay/version.h.in
               ${PROJECT_BINARY_DIR}/include/belay/version.h @ONLY)
target_include_directories(belay PUBLIC
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)

# So that MPI and HDF5 outside the system folders are found at run time.
set_target_properties(belay PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)

set(BELAY_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/belay)
install(TARGETS belay EXPORT belayTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/belay
                  ${PROJECT_BINARY_DIR}/include/belay
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(EXPORT belayTargets NAMESPACE belay::
        DESTINATION ${BELAY_CMAKE_DIR})

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
        DESTINATION ${BELAY_CMAKE_DIR})
