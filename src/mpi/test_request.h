// Tests for the end of a request.

#ifndef BELAY_MPI_TEST_REQUEST_H_
#define BELAY_MPI_TEST_REQUEST_H_

#include <mpi.h>

namespace belay {

// As MPI_Test, but always returns an error. Open MPI gives that of a
// nonblocking collective to the error handler of MPI_COMM_WORLD, which ends the
// job unless the program has set another one. Local.
int TestRequest(MPI_Request& request, int& done);

}  // namespace belay

#endif  // BELAY_MPI_TEST_REQUEST_H_
