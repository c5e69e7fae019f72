// How strictly a restore takes what is stored and what is wanted.
//
// In:  the arrays that all ranks want, and a checkpoint. Out: what is stored
//      otherwise, what nobody wants, and whether that is an error.

#ifndef BELAY_STATE_STRICTNESS_H_
#define BELAY_STATE_STRICTNESS_H_

#include <string>
#include <vector>

#include "belay/options.h"
#include "belay/status.h"
#include "plan/stored_values.h"
#include "state/stored_answer.h"

namespace belay {

// Whether these options take nothing but the usual for an error, and nothing
// else: then nothing has to be asked.
bool IsUsuallyStrict(const RestoreOptions& options);

// Checks that the policies are known ones.
// Errors: InvalidArgument.
Status CheckMismatchPolicies(const RestoreOptions& options);

// Checks that the policies are such as restores of objects have: to what is
// missing and unexpected the usual ones.
// Errors: InvalidArgument.
Status CheckMismatchPoliciesToObjects(const RestoreOptions& options);

// The wanted arrays that are stored with another dtype or shape than may be,
// each form once, ascending.
std::vector<Conversion> FindMismatched(const SavedCheckpoint& saved,
                                       const std::vector<AskedArray>& wanted);

// The stored values that are neither wanted nor skipped, nor part of a value
// with a handler that is; of a value of which only parts are wanted, the arrays
// that are not. Ascending.
std::vector<std::string> FindUnexpected(const SavedCheckpoint& saved,
                                        const StoredQuestion& question);

// Leaves in the answer what is not an error, and is to be known by all ranks.
// Errors: FailedPrecondition - values are stored that must not be.
Status React(const RestoreOptions& options, StoredAnswer& answer);

// Tells the result what the answer says, as far as it is asked for.
void Report(const RestoreOptions& options, StoredAnswer answer,
            RestoreResult& result);

}  // namespace belay

#endif  // BELAY_STATE_STRICTNESS_H_
