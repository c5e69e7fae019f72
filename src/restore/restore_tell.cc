// The part of a restore that tells the program what is stored.

#include <string>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "bytes/wire.h"
#include "mpi/collective.h"
#include "restore/restore_stages.h"

namespace belay {
namespace {

std::string EncodeStep(const OpenedStep& opened) {
  WireWriter out;
  out.PutText(opened.source.path);
  out.Put(opened.source.step);
  out.Put<uint64_t>(opened.saved.arrays.size());
  for (const StoredArray& array : opened.saved.arrays) {
    out.PutText(array.key);
    out.Put(array.dtype);
    out.PutShape(array.shape);
    out.PutText(array.fields);
  }
  return out.Take();
}

StoredStep DecodeStep(std::string_view bytes) {
  WireReader in(bytes);
  StoredStep stored;
  stored.path = in.GetText();
  stored.step = in.Get<int64_t>();
  stored.arrays = in.GetAll<StepArray>([&] {
    StepArray array{.key = std::string(in.GetText())};
    array.dtype = in.Get<DType>();
    array.shape = in.GetShape();
    array.fields = in.GetText();
    return array;
  });
  return stored;
}

}  // namespace

Status TellOfStep(RestoreFrame& frame, const OpenedStep& opened) {
  frame.stages.Enter("tell");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(frame.context, [&] {
        return CatchBadAlloc(
            "the keys of all arrays",
            [&]() -> StatusOr<std::string> { return EncodeStep(opened); });
      }));
  Status mine = CatchBadAlloc("the keys of all arrays", [&] {
    return CatchExceptions(
        [&] { return frame.options.on_open(DecodeStep(bytes)); });
  });
  // It says nothing of the files, which a manager would take for damaged.
  if (absl::IsDataLoss(mine) || absl::IsNotFound(mine) ||
      absl::IsUnimplemented(mine)) {
    mine = absl::FailedPreconditionError(mine.message());
  }
  if (!mine.ok()) {
    mine = Status(mine.code(),
                  absl::StrFormat("restore \"%s\": on_open: %s",
                                  opened.source.path, mine.message()));
  }
  return Agree(frame.context, mine);
}

}  // namespace belay
