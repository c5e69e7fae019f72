"""Builds wheels of the package `belay` for pip, with CMake and nothing else.

A wheel has the Python files, the module belay._core, the library that it was
built with, which the module finds beside itself, and the program that the
library starts.

Environment variables:
  CMAKE_ARGS          more arguments for CMake, such as -DMPI_HOME=/opt/openmpi
  BELAY_PYTHON_BUILD  a finished build, to be packed as it is
"""

import base64
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_UNITY_BUILD=ON",
            "-DBELAY_BUILD_WHEEL=ON"]
_LEFT_OUT = ["TESTS", "EXAMPLES", "BENCHMARKS", "TOOLS", "FORTRAN", "STATIC"]


def _version():
  text = (_ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
  return re.search(r"project\(belay VERSION (\S+)", text)[1]


def _metadata():
  return "\n".join([
      "Metadata-Version: 2.1", "Name: belay", f"Version: {_version()}",
      "Summary: Checkpoints of MPI programs in parallel HDF5",
      "License: Apache-2.0", "Requires-Python: >=3.9",
      "Requires-Dist: mpi4py", "Requires-Dist: numpy", ""])


def _run(*command, is_quiet=False):
  """Runs a command, without the packages that pip hides or adds."""
  environment = {name: value for name, value in os.environ.items()
                 if name not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
  try:
    done = subprocess.run([str(part) for part in command], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)
  except FileNotFoundError:
    raise SystemExit(f"belay: {command[0]} is not installed") from None
  if not is_quiet or done.returncode != 0:
    print(done.stdout, flush=True)
  if done.returncode != 0:
    raise SystemExit(f"belay: failed: {shlex.join(map(str, command))}")
  return done.stdout


def _configure(build, arguments):
  """Calls CMake and returns what it says.

  With other arguments than the last time it begins with an empty cache, in
  which those of the last time would stay.
  """
  stamp = build / "arguments.txt"
  text = shlex.join(arguments) + "\n"
  is_same = stamp.is_file() and stamp.read_text(encoding="utf-8") == text
  stamp.unlink(missing_ok=True)
  said = _run("cmake", *([] if is_same else ["--fresh"]), "-S", _ROOT, "-B",
              build, *arguments)
  stamp.write_text(text, encoding="utf-8")
  return said


def _arguments():
  """Returns the arguments for CMake. Whatever they install is built."""
  return [
      *(["-G", "Ninja"] if shutil.which("ninja") else []), *_OPTIONS,
      *(f"-DBELAY_BUILD_{name}=OFF" for name in _LEFT_OUT),
      f"-DPython_EXECUTABLE={sys.executable}",
      *shlex.split(os.environ.get("CMAKE_ARGS", ""))]


def _build(scratch):
  """Returns a folder in which the module and the library are built."""
  build = _ROOT / "build" / f"wheel-{sys.implementation.cache_tag}"
  try:
    build.mkdir(parents=True, exist_ok=True)
  except OSError:  # a tree that cannot be written
    build = scratch / "build"
  said = _configure(build, _arguments())
  missing = re.search(r"No Python package: (.*)", said)
  if missing:
    raise SystemExit(f"belay: {missing[1]}")
  _run("cmake", "--build", build, "--target", "belay_python", "--parallel",
       os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", os.cpu_count()))
  return build


def _files(prefix):
  """Returns (name in the wheel, path) of what was installed below `prefix`."""
  modules = list(prefix.rglob("belay/_core*.so"))
  if not modules:
    raise SystemExit("belay: the build has no Python package")
  package = modules[0].parent
  files = [(f"belay/{path.relative_to(package)}", path)
           for path in package.rglob("*") if path.is_file()]
  # Under the name that the module asks for; none if belay is static.
  files += [(f"belay/{path.name}", path)
            for path in prefix.rglob("libbelay.so.*")
            if path.name.count(".") == 2]
  # Which the library looks for beside itself.
  files += [("belay/belay/read-hdf5", path)
            for path in prefix.rglob("belay/read-hdf5")]
  return sorted(files)


def _digest(data):
  digest = hashlib.sha256(data).digest()
  return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _tag():
  python = f"cp{sys.version_info.major}{sys.version_info.minor}"
  platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
  return f"{python}-{python}-{platform}"


def _wheel_text():
  return "\n".join(["Wheel-Version: 1.0", "Generator: belay",
                    "Root-Is-Purelib: false", f"Tag: {_tag()}", ""])


def _pack(prefix, directory):
  """Writes the wheel; returns its name."""
  info = f"belay-{_version()}.dist-info"
  contents = [(name, path.read_bytes()) for name, path in _files(prefix)]
  contents += [
      (f"{info}/LICENSE", (_ROOT / "LICENSE").read_bytes()),
      (f"{info}/METADATA", _metadata().encode()),
      (f"{info}/WHEEL", _wheel_text().encode())]
  record = [f"{name},{_digest(data)},{len(data)}" for name, data in contents]
  record += [f"{info}/RECORD,,", ""]
  contents.append((f"{info}/RECORD", "\n".join(record).encode()))
  wheel = f"belay-{_version()}-{_tag()}.whl"
  with zipfile.ZipFile(pathlib.Path(directory) / wheel, "w",
                       zipfile.ZIP_DEFLATED) as file:
    for name, data in contents:
      entry = zipfile.ZipInfo(name)  # of 1980: the same bytes each time
      is_binary = ".so" in name or name.endswith("/read-hdf5")
      mode = 0o755 if is_binary else 0o644
      entry.external_attr = (0o100000 | mode) << 16
      entry.compress_type = zipfile.ZIP_DEFLATED
      file.writestr(entry, data)
  return wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
  """Says what the wheel will be, without building it (PEP 517)."""
  del config_settings
  info = f"belay-{_version()}.dist-info"
  folder = pathlib.Path(metadata_directory) / info
  folder.mkdir()
  (folder / "METADATA").write_text(_metadata(), encoding="utf-8")
  (folder / "WHEEL").write_text(_wheel_text(), encoding="utf-8")
  return info


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
  """Builds a wheel (PEP 517)."""
  del config_settings, metadata_directory
  with tempfile.TemporaryDirectory() as scratch:
    scratch = pathlib.Path(scratch)
    build = os.environ.get("BELAY_PYTHON_BUILD") or _build(scratch)
    _run("cmake", "--install", build, "--prefix", scratch / "prefix")
    return _pack(scratch / "prefix", wheel_directory)


def build_sdist(sdist_directory, config_settings=None):
  """Packs the sources that git knows (PEP 517)."""
  del config_settings
  name = f"belay-{_version()}"
  if not (_ROOT / ".git").exists():
    raise SystemExit(f"belay: {_ROOT} is no git checkout, which says what "
                     "belongs into an sdist; build a wheel (pip wheel .)")
  paths = _run("git", "-C", _ROOT, "ls-files", "-z", is_quiet=True).split("\0")
  with tempfile.NamedTemporaryFile("w", encoding="utf-8") as info, \
      tarfile.open(pathlib.Path(sdist_directory) / f"{name}.tar.gz", "w:gz",
                   format=tarfile.PAX_FORMAT) as file:
    info.write(_metadata())
    info.flush()
    file.add(info.name, f"{name}/PKG-INFO")
    for path in filter(None, paths):
      file.add(_ROOT / path, f"{name}/{path}", recursive=False)
  return f"{name}.tar.gz"
