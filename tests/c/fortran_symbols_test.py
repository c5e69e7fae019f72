"""Every symbol of the Fortran module begins with a name of belay.

Programs may link the module statically, and then no symbol is hidden: one named
as a function of theirs would be that function.

argv: the object files of the library.
"""

import re
import subprocess
import sys

NAMES = re.compile(r"belay_fortran_|__belay_")  # the second ones are gfortran's


def main(objects):
  listed = subprocess.run(["nm", "-g", "--defined-only", *objects], text=True,
                          capture_output=True, check=True).stdout
  names = re.findall(r"^[0-9a-f]+ \w (\S+)$", listed, re.M)
  others = sorted(name for name in names if not NAMES.match(name))
  assert "belay_fortran_add" in names, listed
  assert not others, f"symbols without a prefix: {others}"


if __name__ == "__main__":
  main(sys.argv[1:])
