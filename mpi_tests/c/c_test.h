// What the tests of the C interface share. Compiled as C99.

#ifndef BELAY_MPI_TESTS_C_C_TEST_H_
#define BELAY_MPI_TESTS_C_C_TEST_H_

#include <stdint.h>

#include "belay/belay_c.h"

// Where a test stands.
struct c_test {
  belay_comm* comm;
  int rank;
  int size;
  const char* dir;  // of the test's own
};

// Notes a failure of this rank unless `found` is `needed`; says where.
void ExpectInt(const char* file, int line, int64_t needed, int64_t found);

// The same for the code of a call; says the text of an error.
void ExpectCode(const char* file, int line, int needed, int found);

// Notes a failure unless the last error contains `text`.
void ExpectMessage(const char* file, int line, const char* text);

// Notes a failure unless the strings are equal.
void ExpectText(const char* file, int line, const char* needed,
                const char* found);

// Makes "DIR/NAME" in memory that the next call overwrites.
const char* PathOf(const struct c_test* test, const char* name);

// A C++ program saves its objects in `dir`; and restores them, and counts what
// is not as TestObjects has saved it. Collective.
void SaveObjects(const char* dir);
int64_t CountWrongObjects(const char* dir);

// Each file's tests.
void TestStates(const struct c_test* test);
void TestMacros(const struct c_test* test);
void TestFromRank0(const struct c_test* test);
void TestStrings(const struct c_test* test);
void TestSwapped(const struct c_test* test);
void TestWrongAddresses(const struct c_test* test);
void TestSetArrays(const struct c_test* test);
void TestErrors(const struct c_test* test);
void TestOptions(const struct c_test* test);
void TestSaver(const struct c_test* test);
void TestRowsInBackground(const struct c_test* test);
void TestManager(const struct c_test* test);
void TestRun(const struct c_test* test);
void TestObjects(const struct c_test* test);
void TestPatches(const struct c_test* test);
void TestReader(const struct c_test* test);
void TestRows(const struct c_test* test);
void TestSharedCounts(const struct c_test* test);
void TestMovingRows(const struct c_test* test);
void TestCounts(const struct c_test* test);
void TestWrongRows(const struct c_test* test);
void TestRowsById(const struct c_test* test);
void TestGhosts(const struct c_test* test);
void TestPieces(const struct c_test* test);
void TestLayouts(const struct c_test* test);
void TestMeshes(const struct c_test* test);
void TestSharding(const struct c_test* test);
void TestLog(const struct c_test* test);
void TestVerify(const struct c_test* test);

#endif  // BELAY_MPI_TESTS_C_C_TEST_H_
