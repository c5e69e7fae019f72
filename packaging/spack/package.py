"""The recipe of belay for Spack: see docs/install.md."""

from spack.package import *


class Belay(CMakePackage):
    """Checkpoints of MPI programs in parallel HDF5: arrays in any decomposition,
    per-rank data, replicated values and objects, restored on another number of
    ranks."""

    license("Apache-2.0")

    # Built from a checkout: `spack dev-build`, `spack develop`.
    version("0.1.0")

    variant("shared", default=True, description="Build a shared library")
    variant("python", default=False, description="Build the Python package")
    variant("fortran", default=False, description="Build the Fortran module")
    variant("tools", default=True, description="Build the command")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type=("build", "run"))

    depends_on("mpi")
    depends_on("hdf5@1.10:+mpi")
    depends_on("abseil-cpp@20220623: cxxstd=20")
    depends_on("isa-l")
    depends_on("xxhash")
    depends_on("re2+shared")
    depends_on("zlib-api")
    depends_on("eigen@3.4:")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("cli11", type="build", when="+tools")

    extends("python@3.9:", when="+python")
    depends_on("py-pybind11@2.9:", type="build", when="+python")
    depends_on("py-mpi4py", type=("build", "run"), when="+python")
    depends_on("py-numpy", type=("build", "run"), when="+python")

    conflicts("%gcc@:11", msg="belay needs C++20 as GCC 12 has it")

    def cmake_args(self):
        args = [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("BELAY_BUILD_PYTHON", "python"),
            self.define_from_variant("BELAY_BUILD_FORTRAN", "fortran"),
            self.define_from_variant("BELAY_BUILD_TOOLS", "tools"),
            self.define("BELAY_BUILD_TESTS", False),
            self.define("BELAY_BUILD_EXAMPLES", False),
            self.define("BELAY_BUILD_BENCHMARKS", False),
        ]
        if self.spec.satisfies("+python"):
            args.append(self.define("BELAY_PYTHON_DIR", python_platlib))
            args.append(self.define("Python_EXECUTABLE", python.path))
        return args
