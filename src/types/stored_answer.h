// What ranks have to know of a checkpoint before they list what they read of
// it, and how rank 0 finds it. Pure.

#ifndef BELAY_TYPES_STORED_ANSWER_H_
#define BELAY_TYPES_STORED_ANSWER_H_

#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "belay/type_handler.h"
#include "types/values_to_read.h"

namespace belay {

struct SavedCheckpoint;

// Keys of values, each once, ascending.
struct StoredQuestion {
  std::vector<std::string> handled;
  std::vector<std::string> optional_handled;  // that may be absent
  std::vector<std::string> optional_plain;    // and need no handler
};

struct StoredAnswer {
  std::vector<StoredValue> stored;   // with handlers; ascending by key
  std::vector<std::string> missing;  // that may be absent, and are; ascending
};

StoredQuestion QuestionOf(const ValuesToRead& values);

// The questions of all ranks, as EncodeQuestion wrote them, as one.
StoredQuestion MergeQuestions(const std::vector<std::string>& gathered);

// Errors: NotFound - a value that may not be absent is.
StatusOr<StoredAnswer> AnswerOf(const SavedCheckpoint& saved,
                                const StoredQuestion& question);

// Leaves out the values that may be absent, and are.
void LeaveOutAbsent(const StoredAnswer& answer, ValuesToRead& values);

// For messages between ranks.
std::string EncodeQuestion(const StoredQuestion& question);
std::string EncodeAnswer(const StoredAnswer& answer);
StoredAnswer DecodeAnswer(std::string_view bytes);

}  // namespace belay

#endif  // BELAY_TYPES_STORED_ANSWER_H_
