#include "types/stored_answer.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "base/wire.h"
#include "model/plan.h"
#include "model/stored_values.h"

namespace belay {
namespace {

using Keys = std::vector<std::string>;

void MakeDistinct(Keys& keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

void MakeDistinct(StoredQuestion& question) {
  MakeDistinct(question.handled);
  MakeDistinct(question.optional_handled);
  MakeDistinct(question.optional_plain);
}

void Append(Keys added, Keys& keys) {
  keys.insert(keys.end(), std::make_move_iterator(added.begin()),
              std::make_move_iterator(added.end()));
}

bool HasKey(const std::vector<StoredValue>& stored, const std::string& key) {
  const auto found =
      std::lower_bound(stored.begin(), stored.end(), key,
                       [](const StoredValue& value, const std::string& wanted) {
                         return value.key < wanted;
                       });
  return found != stored.end() && found->key == key;
}

}  // namespace

StoredQuestion QuestionOf(const ValuesToRead& values) {
  StoredQuestion question;
  for (const HandledValue& value : values.handled) {
    (value.may_be_absent ? question.optional_handled : question.handled)
        .push_back(value.key);
  }
  for (size_t i = 0; i < values.shards.size(); ++i) {
    if (!values.may_be_absent[i]) continue;
    question.optional_plain.push_back(values.shards[i].key);
  }
  MakeDistinct(question);
  return question;
}

StoredQuestion MergeQuestions(const std::vector<std::string>& gathered) {
  StoredQuestion all;
  for (const std::string& bytes : gathered) {
    WireReader in(bytes);
    Append(in.GetTexts(), all.handled);
    Append(in.GetTexts(), all.optional_handled);
    Append(in.GetTexts(), all.optional_plain);
  }
  MakeDistinct(all);
  return all;
}

StatusOr<StoredAnswer> AnswerOf(const SavedCheckpoint& saved,
                                const StoredQuestion& question) {
  StoredAnswer answer;
  BELAY_ASSIGN_OR_RETURN(answer.stored, FindValues(saved, question.handled,
                                                   question.optional_handled));
  for (const std::string& key : question.optional_handled) {
    if (!HasKey(answer.stored, key)) answer.missing.push_back(key);
  }
  for (const std::string& key : question.optional_plain) {
    if (!HasValue(saved, key)) answer.missing.push_back(key);
  }
  MakeDistinct(answer.missing);
  return answer;
}

void LeaveOutAbsent(const StoredAnswer& answer, ValuesToRead& values) {
  if (answer.missing.empty()) return;
  // What is stored below a key is something for a handler, and nothing for an
  // array.
  std::erase_if(values.handled, [&](const HandledValue& value) {
    return value.may_be_absent && !HasKey(answer.stored, value.key);
  });
  ValuesToRead left{.handled = std::move(values.handled)};
  for (size_t i = 0; i < values.shards.size(); ++i) {
    if (values.may_be_absent[i] &&
        std::binary_search(answer.missing.begin(), answer.missing.end(),
                           values.shards[i].key)) {
      continue;
    }
    left.AddShard(std::move(values.shards[i]),
                  {.may_be_absent = values.may_be_absent[i],
                   .tolerance = values.tolerances[i]});
  }
  values = std::move(left);
}

std::string EncodeQuestion(const StoredQuestion& question) {
  WireWriter out;
  out.PutTexts(question.handled);
  out.PutTexts(question.optional_handled);
  out.PutTexts(question.optional_plain);
  return out.Take();
}

std::string EncodeAnswer(const StoredAnswer& answer) {
  WireWriter out;
  out.PutTexts(answer.missing);
  return out.Take() + EncodeValues(answer.stored);
}

StoredAnswer DecodeAnswer(std::string_view bytes) {
  WireReader in(bytes);
  StoredAnswer answer{.missing = in.GetTexts()};
  answer.stored = DecodeValues(in.Rest());
  return answer;
}

}  // namespace belay
