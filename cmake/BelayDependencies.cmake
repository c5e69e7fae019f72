# Everything comes from the system; nothing is downloaded.
find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
set(HDF5_PREFER_PARALLEL TRUE)
find_package(HDF5 REQUIRED COMPONENTS C)
if(NOT HDF5_IS_PARALLEL)
  message(FATAL_ERROR "belay needs parallel HDF5; found a serial one: "
                      "${HDF5_INCLUDE_DIRS} (Debian: libhdf5-openmpi-dev)")
endif()
find_package(absl REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)

# One target for HDF5, so that only what links it can include it.
add_library(belay_hdf5 INTERFACE)
target_include_directories(belay_hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})
target_compile_definitions(belay_hdf5 INTERFACE ${HDF5_DEFINITIONS}
  OMPI_SKIP_MPICXX)  # its header includes that of MPI
target_link_libraries(belay_hdf5 INTERFACE ${HDF5_LIBRARIES} MPI::MPI_C)

# C++ bindings of MPI are gone from the standard; never pull them in.
add_library(belay_mpi INTERFACE)
target_compile_definitions(belay_mpi INTERFACE OMPI_SKIP_MPICXX)
target_link_libraries(belay_mpi INTERFACE MPI::MPI_C)
