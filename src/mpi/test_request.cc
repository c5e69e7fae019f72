#include "mpi/test_request.h"

namespace belay {

int TestRequest(MPI_Request& request, int& done) {
  // Asks no error handler, but does not tell the error either.
  int code = MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS || !done) return code;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  code = MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  if (code != MPI_SUCCESS) return code;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Errhandler_free(&handler);
  return code;
}

}  // namespace belay
