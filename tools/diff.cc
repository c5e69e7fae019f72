#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "commands.h"
#include "difference.h"
#include "number_text.h"
#include "progress_bar.h"

namespace belay::tools {
namespace {

// One comparison of two checkpoints.
struct DiffRun {
  const CheckpointReader& a;
  const CheckpointReader& b;
  const DiffOptions& options;
  int64_t total = 0;  // bytes to compare
  ProgressBar bar{true};
  int64_t done = 0;
  // Keys that are only in one, whose structure or values differ, and others.
  int64_t only_a = 0, only_b = 0, structures = 0, values = 0, equal = 0;
};

// Prints a line about a difference.
template <typename... Args>
void PrintLine(DiffRun& run, const absl::FormatSpec<Args...>& format,
               const Args&... args) {
  run.bar.Clear();
  absl::PrintF(format, args...);
}

void PrintOnly(DiffRun& run, const char* side, const ArrayInfo& array) {
  PrintLine(run, "only in %s: %s %s %s\n", side, QuotedText(array.key),
            DTypeName(array.dtype), ShapeText(array.shape));
}

// Returns whether dtype and shape are the same.
bool CompareStructure(DiffRun& run, const ArrayInfo& a, const ArrayInfo& b) {
  if (a.dtype != b.dtype) {
    PrintLine(run, "dtype of %s: %s in A, %s in B\n", QuotedText(a.key),
              DTypeName(a.dtype), DTypeName(b.dtype));
  }
  if (a.shape != b.shape) {
    PrintLine(run, "shape of %s: %s in A, %s in B\n", QuotedText(a.key),
              ShapeText(a.shape), ShapeText(b.shape));
  }
  return a.dtype == b.dtype && a.shape == b.shape;
}

// Returns whether the strings are the same.
StatusOr<bool> CompareTexts(DiffRun& run, const ArrayInfo& array) {
  const StatusOr<std::string> a = run.a.ReadText(array.key);
  if (!a.ok()) return a.status();
  const StatusOr<std::string> b = run.b.ReadText(array.key);
  if (!b.ok()) return b.status();
  run.done += array.bytes;
  if (*a == *b) return true;
  const auto end = std::mismatch(a->begin(), a->end(), b->begin(), b->end());
  PrintLine(
      run, "text of %s: differs from byte %d on; %d bytes in A, %d in B\n",
      QuotedText(array.key), end.first - a->begin(), a->size(), b->size());
  return false;
}

void PrintDifference(DiffRun& run, const ArrayInfo& array,
                     const Difference& found) {
  const std::string counts = absl::StrFormat(
      "values of %s: %d of %d elements differ", QuotedText(array.key),
      found.elements, NumElements(array.shape));
  if (run.options.tolerance) {
    PrintLine(run, "%s by more than %s, most at %s by %s: %s in A, %s in B\n",
              counts, RealText(*run.options.tolerance),
              ShapeText(found.position), RealText(found.largest), found.a,
              found.b);
  } else {
    PrintLine(run, "%s, first at %s: %s in A, %s in B\n", counts,
              ShapeText(found.position), found.a, found.b);
  }
}

// Returns whether the values are the same.
StatusOr<bool> CompareValues(DiffRun& run, const ArrayInfo& array) {
  if (array.dtype == DType::kString) return CompareTexts(run, array);
  const StatusOr<Difference> found = CompareArrays(
      run.a, run.b, array, run.options.tolerance, [&](int64_t bytes) {
        run.done += bytes;
        run.bar.Show(run.done, run.total);
      });
  if (!found.ok()) return found.status();
  if (found->elements == 0) return true;
  PrintDifference(run, array, *found);
  return false;
}

Status CompareArray(DiffRun& run, const ArrayInfo& a, const ArrayInfo& b) {
  if (!CompareStructure(run, a, b)) {
    ++run.structures;
    return absl::OkStatus();
  }
  StatusOr<bool> same = true;
  if (!run.options.keys_only) same = CompareValues(run, a);
  if (!same.ok()) return same.status();
  ++(*same ? run.equal : run.values);
  return absl::OkStatus();
}

// Walks through both lists, which are ascending by key.
Status CompareAll(DiffRun& run) {
  const std::vector<ArrayInfo>& in_a = run.a.info().arrays;
  const std::vector<ArrayInfo>& in_b = run.b.info().arrays;
  auto a = in_a.begin();
  auto b = in_b.begin();
  while (a != in_a.end() || b != in_b.end()) {
    if (b == in_b.end() || (a != in_a.end() && a->key < b->key)) {
      PrintOnly(run, "A", *a++);
      ++run.only_a;
    } else if (a == in_a.end() || b->key < a->key) {
      PrintOnly(run, "B", *b++);
      ++run.only_b;
    } else {
      const Status status = CompareArray(run, *a++, *b++);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// What needs no handler is an array, which was compared as that.
bool IsHandled(const ValueInfo& value) {
  return value.typestr != kScalarTypestr && value.typestr != kArrayTypestr &&
         value.typestr != kStringTypestr;
}

// A value without arrays that is only in one of them.
int64_t CountOnly(DiffRun& run, const char* side, const ValueInfo& value) {
  if (!value.parts.empty()) return 0;  // its arrays were told
  PrintLine(run, "only in %s: %s %s\n", side, QuotedText(value.key),
            PrintableName(value.typestr));
  return 1;
}

void CompareTypes(DiffRun& run, const ValueInfo& a, const ValueInfo& b) {
  if (!IsHandled(a) && !IsHandled(b)) return;
  if (a.typestr == b.typestr) return;
  PrintLine(run, "type of %s: %s in A, %s in B\n", QuotedText(a.key),
            PrintableName(a.typestr), PrintableName(b.typestr));
  ++run.structures;
}

// Compares what handlers have stored beside arrays, which CompareAll does.
void CompareHandled(DiffRun& run) {
  const std::vector<ValueInfo> in_a = run.a.Values();
  const std::vector<ValueInfo> in_b = run.b.Values();
  auto a = in_a.begin();
  auto b = in_b.begin();
  while (a != in_a.end() || b != in_b.end()) {
    if (b == in_b.end() || (a != in_a.end() && a->key < b->key)) {
      run.only_a += CountOnly(run, "A", *a++);
    } else if (a == in_a.end() || b->key < a->key) {
      run.only_b += CountOnly(run, "B", *b++);
    } else {
      CompareTypes(run, *a++, *b++);
    }
  }
}

int PrintSummary(const DiffRun& run) {
  const char* what = run.options.keys_only   ? "keys, dtypes and shapes"
                     : run.options.tolerance ? "values within the tolerance"
                                             : "all values";
  if (run.only_a + run.only_b + run.structures + run.values == 0) {
    absl::PrintF("equal: %s, %s, %s\n", CountText(run.equal, "array"),
                 BytesText(run.a.info().bytes), what);
    return 0;
  }
  absl::PrintF(
      "different: %d only in A, %d only in B, %d of another type or shape, %d "
      "with other values; %d equal\n",
      run.only_a, run.only_b, run.structures, run.values, run.equal);
  return 1;
}

}  // namespace

int Diff(const std::string& a, const std::string& b,
         const DiffOptions& options) {
  const StatusOr<CheckpointReader> in_a = CheckpointReader::Open(a);
  if (!in_a.ok()) return Fail(in_a.status());
  const StatusOr<CheckpointReader> in_b = CheckpointReader::Open(b);
  if (!in_b.ok()) return Fail(in_b.status());
  absl::PrintF("A: %s\nB: %s\n", in_a->info().path, in_b->info().path);
  DiffRun run{
      .a = *in_a, .b = *in_b, .options = options, .total = in_a->info().bytes};
  const Status status = CompareAll(run);
  if (status.ok()) CompareHandled(run);
  run.bar.Clear();
  return status.ok() ? PrintSummary(run) : Fail(status);
}

}  // namespace belay::tools
