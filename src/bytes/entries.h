// Lists of short byte strings that a process tells another one again and again:
// only what has changed is sent.
//
// In:  the list as it is now, and hashes of the one that the other side has
//      (its base). Out: changes, from which the other side makes the list.

#ifndef BELAY_BYTES_ENTRIES_H_
#define BELAY_BYTES_ENTRIES_H_

#include <string>
#include <vector>

#include "belay/status.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"

namespace belay {

using Entries = std::vector<std::string>;
using Hashes = std::vector<Hash128>;

// One hash per entry, and for a list of them one more. Equal in every process
// for equal entries, and for no others: nothing else is compared. Never written
// to disk. Local.
Hashes HashesOf(const Entries& entries);
Hash128 FingerprintOf(const Hashes& hashes);

// Appends what leads from a list with these hashes to `now`: runs of entries
// that stay, 16 bytes each, and between them those that are new. What has gone
// takes no place. An empty base gives all entries. Local.
void PutChanges(const Hashes& base, const Entries& now, WireWriter& out);

// Makes the list from its base. Local.
// Errors: Internal - the changes are not those of this base.
StatusOr<Entries> GetChanged(const Entries& base, WireReader& in);

}  // namespace belay

#endif  // BELAY_BYTES_ENTRIES_H_
