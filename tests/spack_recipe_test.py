"""The recipe for Spack fits the project: its syntax, version, options, and a
dependency for each that CMake looks for. Spack itself does not run here.

argv: the source folder, the version of the project.
"""
import ast
import pathlib
import re
import sys
import unittest

SOURCE, VERSION = pathlib.Path(sys.argv[1]), sys.argv[2]
TREE = ast.parse((SOURCE / "packaging" / "spack" / "package.py").read_text())
# The names in Spack of what CMake and pkg-config look for; None: of the system.
PACKAGES = {"Threads": None, "PkgConfig": "pkgconfig", "MPI": "mpi",
            "HDF5": "hdf5", "absl": "abseil-cpp", "ZLIB": "zlib-api",
            "Eigen3": "eigen", "nlohmann_json": "nlohmann-json",
            "CLI11": "cli11", "libisal": "isa-l", "libxxhash": "xxhash",
            "re2": "re2", "Python": "python", "pybind11": "py-pybind11"}


def calls(name):
    """Returns the calls of a directive of Spack, such as depends_on."""
    return [node for node in ast.walk(TREE) if isinstance(node, ast.Call)
            and getattr(node.func, "id", getattr(node.func, "attr", "")) == name]


def first(call):
    return call.args[0].value


class Recipe(unittest.TestCase):
    def cmake(self, *path):
        return SOURCE.joinpath(*path).read_text()

    def test_is_a_package_of_cmake(self):
        classes = [node for node in TREE.body if isinstance(node, ast.ClassDef)]
        self.assertEqual([(one.name, one.bases[0].id) for one in classes],
                         [("Belay", "CMakePackage")])

    def test_has_the_version_of_the_project(self):
        self.assertEqual([first(call) for call in calls("version")], [VERSION])

    def test_sets_options_that_cmake_knows(self):
        text = (self.cmake("CMakeLists.txt") + self.cmake("python",
                                                          "CMakeLists.txt"))
        names = [first(call) for call in
                 calls("define") + calls("define_from_variant")]
        self.assertGreater(len(names), 5)
        for name in names:
            self.assertRegex(text, rf"(?:option\(|set\(\s*){name}\b")

    def test_takes_options_from_variants_that_it_has(self):
        variants = {first(call) for call in calls("variant")}
        self.assertTrue({"python", "fortran"} <= variants)
        for call in calls("define_from_variant"):
            self.assertIn(call.args[1].value, variants)

    def test_depends_on_what_cmake_looks_for(self):
        text = "".join(self.cmake(*path) for path in (
            ("cmake", "BelayDependencies.cmake"), ("tools", "CMakeLists.txt"),
            ("python", "CMakeLists.txt")))
        wanted = set(re.findall(r"find_package\((\w+)", text))
        wanted |= set(re.findall(r"IMPORTED_TARGET (\w+)", text))
        specs = [first(call) for call in calls("depends_on") + calls("extends")]
        found = {re.match(r"[\w-]+", spec).group() for spec in specs}
        for name in wanted:
            self.assertIn(name, PACKAGES, "which package of Spack is that?")
            if PACKAGES[name]:
                self.assertIn(PACKAGES[name], found)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
