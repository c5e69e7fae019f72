// Runs the tests of the C interface on all ranks.
//
// usage: mpi_c_test DIR

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "c_test.h"

static int failures = 0;

static void Say(const char* file, int line) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ++failures;
  fprintf(stderr, "%s:%d: rank %d: ", file, line, rank);
}

void ExpectInt(const char* file, int line, int64_t needed, int64_t found) {
  if (needed == found) return;
  Say(file, line);
  fprintf(stderr, "need %lld, found %lld\n", (long long)needed,
          (long long)found);
}

void ExpectCode(const char* file, int line, int needed, int found) {
  if (needed == found) return;
  Say(file, line);
  fprintf(stderr, "need %s, found %s: %s\n", belay_code_name(needed),
          belay_code_name(found), belay_error_message());
}

void ExpectMessage(const char* file, int line, const char* text) {
  if (strstr(belay_error_message(), text) != NULL) return;
  Say(file, line);
  fprintf(stderr, "need a message with \"%s\", found \"%s\"\n", text,
          belay_error_message());
}

void ExpectText(const char* file, int line, const char* needed,
                const char* found) {
  if (strcmp(needed, found) == 0) return;
  Say(file, line);
  fprintf(stderr, "need \"%s\", found \"%s\"\n", needed, found);
}

const char* PathOf(const struct c_test* test, const char* name) {
  static char path[4096];
  snprintf(path, sizeof(path), "%s/%s", test->dir, name);
  return path;
}

int main(int argc, char** argv) {
  struct c_test test = {NULL, 0, 0, argc > 1 ? argv[1] : "c_test"};
  int all = 0;
  MPI_Init(&argc, &argv);
  ExpectCode(__FILE__, __LINE__, BELAY_OK,
             belay_comm_create(MPI_COMM_WORLD, &test.comm));
  belay_comm_rank(test.comm, &test.rank);
  belay_comm_size(test.comm, &test.size);
  TestStates(&test);
  TestMacros(&test);
  TestFromRank0(&test);
  TestStrings(&test);
  TestSwapped(&test);
  TestWrongAddresses(&test);
  TestSetArrays(&test);
  TestErrors(&test);
  TestOptions(&test);
  TestSaver(&test);
  TestRowsInBackground(&test);
  TestManager(&test);
  TestRun(&test);
  TestReader(&test);
  TestObjects(&test);
  TestPatches(&test);
  TestRows(&test);
  TestSharedCounts(&test);
  TestMovingRows(&test);
  TestCounts(&test);
  TestWrongRows(&test);
  TestRowsById(&test);
  TestGhosts(&test);
  TestPieces(&test);
  TestLayouts(&test);
  TestMeshes(&test);
  TestSharding(&test);
  TestLog(&test);
  TestVerify(&test);
  ExpectCode(__FILE__, __LINE__, BELAY_OK, belay_comm_free(&test.comm));
  ExpectInt(__FILE__, __LINE__, 1, test.comm == NULL);
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (test.rank == 0) printf("%d ranks, %d failures\n", test.size, all);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
