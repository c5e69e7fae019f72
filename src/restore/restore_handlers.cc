// The part of a restore in which values with handlers are listed, and those
// that are not stored are left out.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "restore/restore_run.h"
#include "values/rows/owned_rows.h"
#include "values/stored_answer.h"
#include "values/strictness.h"

namespace belay {
namespace {

// For all ranks, as bytes. Rank 0 only.
StatusOr<std::string> AnswerOnRoot(const std::vector<std::string>& gathered,
                                   const RestoreRun& run) {
  const auto answer = [&]() -> StatusOr<std::string> {
    const StoredQuestion question = MergeQuestions(gathered);
    BELAY_ASSIGN_OR_RETURN(StoredAnswer all, AnswerOf(run.saved, question));
    if (!all.rows.empty()) {
      auto restorers = RanksThatRestoreRows(gathered);
      for (FoundRows& one : all.rows) {
        one.restorers = std::move(restorers[one.id]);
      }
    }
    if (!IsUsuallyStrict(run.options)) {
      all.mismatched = FindMismatched(run.saved, question.arrays);
      all.unexpected = FindUnexpected(run.saved, question);
      BELAY_RETURN_IF_ERROR(React(run.options, all));
    }
    return EncodeAnswer(all);
  };
  StatusOr<std::string> bytes = answer();
  if (bytes.ok()) return bytes;
  return Status(bytes.status().code(),
                absl::StrFormat("restore \"%s\": %s", run.source.path,
                                bytes.status().message()));
}

// What is stored of these values, and of those of other ranks. Collective;
// agreed.
StatusOr<StoredAnswer> AskTogether(RestoreRun& run,
                                   const ValuesToRead& values) {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<std::string> gathered,
      Gather(run.team, EncodeQuestion(
                           QuestionOf(values, !IsUsuallyStrict(run.options)))));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes,
      FromRoot(run.team, [&] { return AnswerOnRoot(gathered, run); }));
  return DecodeAnswer(bytes);
}

bool AnyMayBeAbsent(const ValuesToRead& values) {
  const std::vector<bool>& optional = values.may_be_absent;
  return std::find(optional.begin(), optional.end(), true) != optional.end();
}

// Whether the index has to be asked for the lengths of any.
bool AnyTakesRows(const ValuesToRead& values) {
  return HasRows(values.shards) ||
         std::any_of(values.shards.begin(), values.shards.end(), IsResizable);
}

bool AnyHasIds(const ValuesToRead& values) {
  return std::any_of(values.shards.begin(), values.shards.end(), HasIds);
}

void LetAllBeAbsent(ValuesToRead& values) {
  values.may_be_absent.assign(values.shards.size(), true);
  for (HandledValue& value : values.handled) value.may_be_absent = true;
  for (ComputedValue& value : values.computed) value.may_be_absent = true;
}

Status CheckAllWritable(const StatusOr<ValuesToRead>& values) {
  return values.ok() ? CheckWritable(*values) : values.status();
}

// Lists the values, containers with the lengths that are stored, and adds what
// does not fit to `mismatched`. Local.
StatusOr<HandlerListing> ListFitted(RestoreRun& run, ValuesToRead values,
                                    const StoredAnswer& answer,
                                    std::vector<Conversion>& mismatched) {
  std::vector<ComputedValue> computed = std::move(values.computed);
  BELAY_RETURN_IF_ERROR(PlaceRows(answer.rows, run.team.rank(), run.team.size(),
                                  values.shards, values.former, run.id_blocks));
  BELAY_RETURN_IF_ERROR(
      GiveLengths(answer.lengths, values.shards, values.former));
  BELAY_RETURN_IF_ERROR(GiveComputedLengths(answer, computed, values.former));
  BELAY_ASSIGN_OR_RETURN(
      HandlerListing listing,
      ListForRestore(std::move(values), *run.handlers, answer.stored));
  BELAY_RETURN_IF_ERROR(
      ListComputed(run, std::move(computed), answer, listing, mismatched));
  return listing;
}

// Whether handlers want more, and lists it. Collective; agreed.
StatusOr<bool> ListMoreTogether(RestoreRun& run) {
  run.stages.Enter("handlers");
  StatusOr<HandlerListing> more = ListMore(run.listing, *run.handlers);
  BELAY_RETURN_IF_AGREED(Agree(run.team, more.status()));
  // What the last listing keeps may be borrowed by what comes now.
  more->kept.insert(more->kept.end(), run.listing.kept.begin(),
                    run.listing.kept.end());
  run.listing = *std::move(more);
  std::vector<int64_t> any = {run.listing.handled.empty() ? 0 : 1};
  BELAY_RETURN_IF_AGREED(MaxAll(run.team, any));
  return any[0] != 0;
}

}  // namespace

Status ListTogether(RestoreRun& run, StatusOr<ValuesToRead> values) {
  const bool asks_all = !IsUsuallyStrict(run.options);
  if (values.ok() && run.options.missing != MismatchPolicy::kError) {
    LetAllBeAbsent(*values);
  }
  if (const Status status = CheckAllWritable(values); !status.ok()) {
    values = status;
  }
  // One that fails here takes part, so that all learn of it.
  std::vector<int64_t> any = {!values.ok() || !values->handled.empty() ? 1 : 0,
                              values.ok() && AnyMayBeAbsent(*values) ? 1 : 0,
                              values.ok() && AnyTakesRows(*values) ? 1 : 0,
                              values.ok() && !values->computed.empty() ? 1 : 0,
                              values.ok() && HasOwners(values->shards) ? 1 : 0,
                              values.ok() && AnyHasIds(*values) ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(run.team, any));
  run.any_handlers = any[0] != 0;
  if (run.any_handlers) run.stages.Enter("handlers");
  StoredAnswer answer;
  run.any_computed = any[3] != 0;
  run.any_owned = any[4] != 0;
  run.any_ids = any[5] != 0;
  const bool asks = run.any_handlers || any[1] != 0 || any[2] != 0 ||
                    run.any_computed || asks_all;
  if (asks) {
    BELAY_RETURN_IF_AGREED(Agree(run.team, values.status()));
    BELAY_ASSIGN_OR_RETURN_AGREED(answer, AskTogether(run, *values));
    LeaveOut(answer, *values);
  }
  std::vector<Conversion> mismatched;
  StatusOr<HandlerListing> listing = CatchExceptions(
      [&] { return ListFitted(run, *std::move(values), answer, mismatched); });
  if (asks) BELAY_RETURN_IF_AGREED(Agree(run.team, listing.status()));
  run.listing = *std::move(listing);
  if (run.any_ids) run.former = run.listing.former;
  if (run.any_computed) {
    BELAY_RETURN_IF_AGREED(ShareComputed(run, mismatched));
    answer.mismatched.insert(answer.mismatched.end(), mismatched.begin(),
                             mismatched.end());
  }
  Report(run.options, std::move(answer), run.result);
  return absl::OkStatus();
}

StatusOr<bool> ReceiveTogether(RestoreRun& run) {
  if (run.any_owned) BELAY_RETURN_IF_AGREED(HandOutRows(run));
  if (run.any_computed) BELAY_RETURN_IF_AGREED(ComputeTogether(run));
  bool wants_more = false;
  if (run.any_handlers) {
    BELAY_ASSIGN_OR_RETURN_AGREED(wants_more, ListMoreTogether(run));
  }
  // Last: the ids may be among what is restored.
  if (!wants_more && run.any_ids) BELAY_RETURN_IF_AGREED(FetchById(run));
  return wants_more;
}

}  // namespace belay
