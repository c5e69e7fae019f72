"""Whatever communicates goes through src/mpi, whose calls have a deadline.

Elsewhere, in every language, only MPI functions may be called that wait for no
other rank. Whole programs may begin and end MPI. Samples, tests, benchmarks and
examples are programs of their own. And nothing forks: memory that a network card
reads, and locks that threads hold, do not survive it; posix_spawn does no harm.
"""

import re

import rule

CHECKED = ("src/", "include/", "python/src/", "fortran/", "tools/")
GUARDED = "src/mpi/"
# These answer at once.
LOCAL = {
    "MPI_Abort", "MPI_Comm_c2f", "MPI_Comm_compare", "MPI_Comm_create_keyval",
    "MPI_Comm_delete_attr", "MPI_Comm_f2c", "MPI_Comm_free_keyval",
    "MPI_Comm_get_attr", "MPI_Comm_rank", "MPI_Comm_set_attr", "MPI_Comm_size",
    "MPI_Comm_test_inter", "MPI_Finalized", "MPI_Get_library_version",
    "MPI_Info_create", "MPI_Info_free", "MPI_Info_set", "MPI_Initialized",
    "MPI_Query_thread",
}
PROGRAMS = {"tools/mpi_session.h": {"MPI_Init", "MPI_Finalize"}}
_CALL = re.compile(r"\bP?(MPI_[A-Z]\w*)\s*\(")
_FORK = re.compile(r"\bv?fork\s*\(")
_COMMENT = {"c": re.compile(r"//[^\n]*|/\*.*?\*/", re.S),
            "fortran": re.compile(r"![^\n]*")}


def _spaces(match):
  return re.sub(r"[^\n]", " ", match.group())


def check(tree):
  problems = []
  for path, text in tree.items():
    if not path.startswith(CHECKED) or path.startswith(GUARDED):
      continue
    fortran = path.endswith((".f90", ".F90"))
    if not fortran and not path.endswith((".h", ".c", ".cc")):
      continue
    # Fortran does not tell capitals apart, nor do its comments look like C's.
    code = _COMMENT["fortran" if fortran else "c"].sub(_spaces, text)
    for match in _FORK.finditer(code):
      line = code.count("\n", 0, match.start()) + 1
      problems.append(f"{path}:{line}: fork: start a program by posix_spawn")
    allowed = LOCAL | PROGRAMS.get(path, set())
    names = {name.upper() for name in allowed} if fortran else allowed
    pattern = re.compile(_CALL.pattern, re.I) if fortran else _CALL
    for match in pattern.finditer(code):
      name = match.group(1)
      if fortran and name.upper() == "MPI_COMM":
        continue  # a type
      if (name.upper() if fortran else name) not in names:
        line = code.count("\n", 0, match.start()) + 1
        problems.append(f"{path}:{line}: {name}: may wait for other ranks "
                        "without a deadline; call a function of src/mpi")
  return problems


BAD = [
    ({"python/src/a.cc": "void F() {\n  MPI_Bcast(&a, 1);\n}\n"},
     "a.cc:2: MPI_Bcast"),
    ({"src/save/a.cc": "int code = MPI_Allreduce(a, b);\n"}, "MPI_Allreduce"),
    ({"src/io/a.cc": "MPI_Wait (&request);\n"}, "MPI_Wait:"),
    ({"src/c/a.cc": "return PMPI_Barrier(comm);\n"}, "MPI_Barrier"),
    ({"include/belay/a.h": "  ~A() { MPI_Comm_free(&comm_); }\n"},
     "MPI_Comm_free:"),
    ({"fortran/a.f90": "  call mpi_barrier(comm)\n"}, "mpi_barrier"),
    ({"fortran/a.c": "MPI_Recv(a);\n"}, "MPI_Recv"),
    ({"tools/a.cc": "MPI_Init(0, 0);\n"}, "MPI_Init"),
    ({"src/base/a.cc": "// So\npid = ::fork();\n"}, "a.cc:2: fork"),
    ({"tools/mpi_session.h": "MPI_Comm_dup(a, &b);\n"}, "MPI_Comm_dup"),
]
GOOD = [
    {"src/mpi/a.cc": "MPI_Bcast(&a, 1);\n"},
    {"src/base/a.cc": "posix_spawn(&pid);  // no fork()\n"},
    {"src/save/a.cc": "MPI_Comm_rank(comm, &rank);  // not MPI_Bcast(a)\n"},
    {"tools/mpi_session.h": "MPI_Init(0, 0);\nMPI_Finalize();\n"},
    {"examples/a.cc": "MPI_Barrier(comm);\n"},
    {"fortran/a.f90": "  type(MPI_Comm), intent(in) :: mpi  ! MPI_Bcast(a)\n"},
    {"python/src/a.cc": "/* MPI_Bcast(a) */ MPI_Comm comm = F();\n"},
]

if __name__ == "__main__":
  rule.main(check, BAD, GOOD)
