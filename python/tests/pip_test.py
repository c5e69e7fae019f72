"""`pip install .` into a virtual environment, from a finished build.

Usage: pip_test.py SOURCE BUILD MPIRUN

With BELAY_TEST_PIP_FROM_SCRATCH=1 pip builds everything itself, as for a user.
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

SOURCE, BUILD, MPIRUN = sys.argv[1:4]
SKIPPED = 77  # what ctest takes for skipped

PROGRAM = """
import os
import sys

import numpy
from mpi4py import MPI

import belay

comm = MPI.COMM_WORLD
belay.save(comm, sys.argv[1], 1, {"a": numpy.arange(6.0), "n": comm.size})
assert belay.open(sys.argv[1])["a"][2:4].tolist() == [2, 3]
comm.barrier()
assert not belay.verify_checkpoint(sys.argv[1]).damage  # starts its program
assert belay.simulate("gpt2-small")["save"]["ranks"] == 1  # finds its models
package = os.path.dirname(belay.__file__)
assert package.startswith(sys.prefix), package
for name in ("__init__.pyi", "py.typed"):
  assert os.path.isfile(os.path.join(package, name)), name
with open("/proc/self/maps", encoding="utf-8") as maps:
  loaded = {line.split()[-1] for line in maps if "libbelay.so" in line}
assert loaded == {os.path.join(package, name) for name in os.listdir(package)
                  if name.startswith("libbelay.so")}, loaded
print("works")
"""


def run(*command, **environment):
  """Runs a command and returns what it prints."""
  inherited = {name: value for name, value in os.environ.items()
               if name not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
  done = subprocess.run([str(part) for part in command],
                        env={**inherited, **environment}, text=True,
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                        check=False)
  if done.returncode != 0:
    raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}")
  return done.stdout


class PipTest(unittest.TestCase):

  def setUp(self):
    folder = tempfile.TemporaryDirectory(prefix="belay_pip_")
    self.addCleanup(folder.cleanup)
    self.dir = pathlib.Path(folder.name).resolve()
    self.python = self.dir / "venv/bin/python"
    self.build = {"BELAY_PYTHON_BUILD": BUILD}
    if os.environ.get("BELAY_TEST_PIP_FROM_SCRATCH") == "1":
      self.build = {}

  def pip(self, command, *arguments):
    return run(sys.executable, "-m", "pip", "--python", self.python,
               "--disable-pip-version-check", command, *arguments, **self.build)

  def test_install(self):
    run(sys.executable, "-m", "venv", "--system-site-packages", "--without-pip",
        self.dir / "venv")
    self.pip("install", "--no-build-isolation", "--no-index", "--no-cache-dir",
             SOURCE)
    program = self.dir / "program.py"
    program.write_text(PROGRAM)
    said = run(MPIRUN, 2, self.python, "-B", program, self.dir / "run")
    self.assertEqual(said.count("works"), 2, said)
    package = next((self.dir / "venv").rglob("belay/__init__.py")).parent
    self.pip("uninstall", "--yes", "belay")
    self.assertFalse([path for path in package.rglob("*") if path.is_file()])

  def test_isolated(self):
    """With pip's isolation nothing is downloaded either."""
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel",
        "--no-index", "--no-deps", "--no-cache-dir", "-w", self.dir, SOURCE,
        **self.build)
    [wheel] = self.dir.glob("belay-*.whl")
    with zipfile.ZipFile(wheel) as file:
      self.assertIsNone(file.testzip())
      names = file.namelist()
    self.assertIn("belay/__init__.pyi", names)
    self.assertIn("belay/belay/read-hdf5", names)
    self.assertEqual(len([name for name in names if "/_core" in name]), 1)

  def backend(self, source, code, **environment):
    """Runs code with the wheel_backend of a source tree."""
    return run(sys.executable, "-B", "-c", f"import wheel_backend\n{code}",
               PYTHONPATH=os.path.join(source, "python"), **environment)

  def test_arguments_of_an_earlier_build_do_not_stick(self):
    """With a project of two files in place of belay, which takes minutes."""
    source = self.dir / "source"
    (source / "python").mkdir(parents=True)
    shutil.copy(pathlib.Path(SOURCE) / "python/wheel_backend.py",
                source / "python")
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\n"
        "project(belay VERSION 1.0 LANGUAGES NONE)\n"
        'message(STATUS "ONE is ${ONE}, TWO is ${TWO}")\n'
        "add_custom_target(belay_python)\n")
    build = "import pathlib; wheel_backend._build(pathlib.Path('.'))"
    said = self.backend(source, build, CMAKE_ARGS="-DONE=1")
    self.assertIn("ONE is 1, TWO is \n", said)
    said = self.backend(source, build, CMAKE_ARGS="-DTWO=2")
    self.assertIn("ONE is , TWO is 2\n", said)
    [made] = (source / "build").glob("wheel-*")
    (made / "CMakeFiles/mark").write_text("")
    self.backend(source, build, CMAKE_ARGS="-DTWO=2")
    self.assertTrue((made / "CMakeFiles/mark").is_file())  # is used again

  def test_all_that_is_installed_is_built(self):
    """Configures as for a wheel, which takes much less than a build."""
    if shutil.which("ninja") is None:
      self.skipTest("ninja is not installed")
    build = self.dir / "build"
    build.mkdir()
    self.backend(SOURCE, "import pathlib; wheel_backend._configure("
                 f"pathlib.Path({str(build)!r}), wheel_backend._arguments())")
    installed = {
        path for script in build.rglob("cmake_install.cmake")
        for path in re.findall(rf'"({re.escape(str(build))}/[^"]+)"',
                               script.read_text())
        if ".so" in path or path.endswith(".a")}
    self.assertTrue(any("_core" in path for path in installed), installed)
    inputs = run("ninja", "-C", build, "-t", "inputs", "belay_python")
    # Of a link, libbelay.so.0, there is the file, libbelay.so.0.1.0.
    built = [f"{build / line}." for line in inputs.splitlines()]
    self.assertFalse({
        path for path in installed if "_core" not in path
        and not any(one.startswith(f"{path}.") for one in built)})

  def test_sdist(self):
    code = f"print(wheel_backend.build_sdist({str(self.dir)!r}))"
    if (pathlib.Path(SOURCE) / ".git").exists():
      said = self.backend(SOURCE, code)
      self.assertRegex(said, r"^belay-[\d.]+\.tar\.gz\n$")
      [sdist] = self.dir.glob("*.tar.gz")
      with tarfile.open(sdist) as file:
        names = file.getnames()
      root = sdist.name.removesuffix(".tar.gz")
      self.assertIn(f"{root}/PKG-INFO", names)
      self.assertIn(f"{root}/python/wheel_backend.py", names)
    source = self.dir / "unpacked"
    (source / "python").mkdir(parents=True)
    shutil.copy(pathlib.Path(SOURCE) / "python/wheel_backend.py",
                source / "python")
    shutil.copy(pathlib.Path(SOURCE) / "CMakeLists.txt", source)
    with self.assertRaises(AssertionError) as caught:
      self.backend(source, code)
    self.assertIn(f"belay: {source} is no git checkout, which says what "
                  "belongs into an sdist; build a wheel", str(caught.exception))

  def test_what_is_missing(self):
    with self.assertRaises(AssertionError) as caught:
      run(sys.executable, "-c",
          "import wheel_backend; wheel_backend.build_wheel('.')",
          PYTHONPATH=os.path.join(SOURCE, "python"), PATH=str(self.dir))
    self.assertIn("belay: cmake is not installed", str(caught.exception))


if __name__ == "__main__":
  for name in ("pip", "venv"):
    if importlib.util.find_spec(name) is None:
      print(f"skipped: {sys.executable} has no {name} (Debian: python3-pip, "
            "python3-venv)")
      sys.exit(SKIPPED)
  unittest.main(argv=sys.argv[:1])
