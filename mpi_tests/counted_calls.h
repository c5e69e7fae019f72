// Every call by which the library sends anything, counted between it and MPI.
// Included by one file of a program.

#ifndef BELAY_MPI_TESTS_COUNTED_CALLS_H_
#define BELAY_MPI_TESTS_COUNTED_CALLS_H_

#include <mpi.h>

#include <string>
#include <vector>

namespace belay::testing {

// What this rank has begun, in order: the name of the call and its bytes.
inline std::vector<std::string>* calls = nullptr;

inline void NoteCall(const char* name, int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  if (calls != nullptr) {
    calls->push_back(name + std::string(" ") + std::to_string(count * size));
  }
}

// What `work` sends, as above.
template <typename Work>
std::vector<std::string> CallsOf(Work work) {
  std::vector<std::string> seen;
  calls = &seen;
  work();
  calls = nullptr;
  return seen;
}

}  // namespace belay::testing

// Defines the MPI function `name`; `count` elements of `type` count as its
// bytes.
#define BELAY_COUNT_CALL(name, count, type, parameters, arguments) \
  extern "C" int name parameters {                                 \
    belay::testing::NoteCall(#name, count, type);                  \
    return P##name arguments;                                      \
  }

BELAY_COUNT_CALL(MPI_Iallreduce, count, type,
                 (const void* from, void* to, int count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm, MPI_Request* request),
                 (from, to, count, type, op, comm, request))
BELAY_COUNT_CALL(MPI_Allreduce, count, type,
                 (const void* from, void* to, int count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm),
                 (from, to, count, type, op, comm))
BELAY_COUNT_CALL(MPI_Ireduce, count, type,
                 (const void* from, void* to, int count, MPI_Datatype type,
                  MPI_Op op, int root, MPI_Comm comm, MPI_Request* request),
                 (from, to, count, type, op, root, comm, request))
BELAY_COUNT_CALL(MPI_Ibcast, count, type,
                 (void* bytes, int count, MPI_Datatype type, int root,
                  MPI_Comm comm, MPI_Request* request),
                 (bytes, count, type, root, comm, request))
BELAY_COUNT_CALL(MPI_Igather, count, type,
                 (const void* from, int count, MPI_Datatype type, void* to,
                  int to_count, MPI_Datatype to_type, int root, MPI_Comm comm,
                  MPI_Request* request),
                 (from, count, type, to, to_count, to_type, root, comm,
                  request))
BELAY_COUNT_CALL(MPI_Iallgather, count, type,
                 (const void* from, int count, MPI_Datatype type, void* to,
                  int to_count, MPI_Datatype to_type, MPI_Comm comm,
                  MPI_Request* request),
                 (from, count, type, to, to_count, to_type, comm, request))
BELAY_COUNT_CALL(MPI_Iscatter, count, type,
                 (const void* from, int count, MPI_Datatype type, void* to,
                  int to_count, MPI_Datatype to_type, int root, MPI_Comm comm,
                  MPI_Request* request),
                 (from, count, type, to, to_count, to_type, root, comm,
                  request))
BELAY_COUNT_CALL(MPI_Ialltoall, count, type,
                 (const void* from, int count, MPI_Datatype type, void* to,
                  int to_count, MPI_Datatype to_type, MPI_Comm comm,
                  MPI_Request* request),
                 (from, count, type, to, to_count, to_type, comm, request))
BELAY_COUNT_CALL(MPI_Ialltoallw, 0, MPI_BYTE,
                 (const void* from, const int* counts, const int* places,
                  const MPI_Datatype* types, void* to, const int* to_counts,
                  const int* to_places, const MPI_Datatype* to_types,
                  MPI_Comm comm, MPI_Request* request),
                 (from, counts, places, types, to, to_counts, to_places,
                  to_types, comm, request))
BELAY_COUNT_CALL(MPI_Isend, count, type,
                 (const void* from, int count, MPI_Datatype type, int to,
                  int tag, MPI_Comm comm, MPI_Request* request),
                 (from, count, type, to, tag, comm, request))
BELAY_COUNT_CALL(MPI_Send, count, type,
                 (const void* from, int count, MPI_Datatype type, int to,
                  int tag, MPI_Comm comm),
                 (from, count, type, to, tag, comm))
BELAY_COUNT_CALL(MPI_Barrier, 0, MPI_BYTE, (MPI_Comm comm), (comm))
BELAY_COUNT_CALL(MPI_Comm_dup, 0, MPI_BYTE, (MPI_Comm comm, MPI_Comm* copy),
                 (comm, copy))
BELAY_COUNT_CALL(MPI_Comm_split, 0, MPI_BYTE,
                 (MPI_Comm comm, int color, int key, MPI_Comm* part),
                 (comm, color, key, part))
BELAY_COUNT_CALL(MPI_Comm_split_type, 0, MPI_BYTE,
                 (MPI_Comm comm, int split, int key, MPI_Info info,
                  MPI_Comm* part),
                 (comm, split, key, info, part))
BELAY_COUNT_CALL(MPI_File_open, 0, MPI_BYTE,
                 (MPI_Comm comm, const char* name, int mode, MPI_Info info,
                  MPI_File* file),
                 (comm, name, mode, info, file))

#undef BELAY_COUNT_CALL

#endif  // BELAY_MPI_TESTS_COUNTED_CALLS_H_
