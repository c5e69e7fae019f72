#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "commands.h"
#include "difference.h"
#include "json_output.h"
#include "number_text.h"
#include "progress_bar.h"
#include "struct_fields.h"

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
  // Numbers of keys that are only in one checkpoint, that differ in structure
  // or values, and that are equal.
  int64_t only_a = 0, only_b = 0, structures = 0, values = 0, equal = 0;
  Json found = Json::array();  // with `json`: an object for each line
};

// Reports a difference: as a line, or as a JSON object of that kind.
void Tell(DiffRun& run, const char* kind, const std::string& key, Json more,
          const std::string& line) {
  if (run.options.json) {
    Json found = {{"kind", kind}, {"key", TextJson(key)}};
    found.update(more);
    run.found.push_back(std::move(found));
    return;
  }
  run.bar.Clear();
  Print("%s\n", line);
}

void TellOnly(DiffRun& run, char side, const ArrayInfo& array) {
  Tell(run, side == 'A' ? "only_in_a" : "only_in_b", array.key,
       {{"dtype", DTypeName(array.dtype)}, {"shape", array.shape}},
       absl::StrFormat("only in %c: %s %s %s", side, QuotedText(array.key),
                       DTypeName(array.dtype), ShapeText(array.shape)));
}

// Returns whether dtype, shape and fields of structs are the same.
bool CompareStructure(DiffRun& run, const ArrayInfo& a, const ArrayInfo& b) {
  if (a.dtype != b.dtype) {
    Tell(run, "dtype", a.key,
         {{"a", DTypeName(a.dtype)}, {"b", DTypeName(b.dtype)}},
         absl::StrFormat("dtype of %s: %s in A, %s in B", QuotedText(a.key),
                         DTypeName(a.dtype), DTypeName(b.dtype)));
  }
  if (a.shape != b.shape) {
    Tell(run, "shape", a.key, {{"a", a.shape}, {"b", b.shape}},
         absl::StrFormat("shape of %s: %s in A, %s in B", QuotedText(a.key),
                         ShapeText(a.shape), ShapeText(b.shape)));
  }
  if (a.fields != b.fields) {
    Tell(run, "fields", a.key, {{"a", a.fields}, {"b", b.fields}},
         absl::StrFormat("structs of %s: %s in A, %s in B", QuotedText(a.key),
                         a.fields.empty() ? "none" : a.fields,
                         b.fields.empty() ? "none" : b.fields));
  }
  return a.dtype == b.dtype && a.shape == b.shape && a.fields == b.fields;
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
  const int64_t first = end.first - a->begin();
  Tell(run, "text", array.key,
       {{"first_byte", first}, {"bytes_a", a->size()}, {"bytes_b", b->size()}},
       absl::StrFormat(
           "text of %s: differs from byte %d on; %d bytes in A, %d in B",
           QuotedText(array.key), first, a->size(), b->size()));
  return false;
}

void TellDifference(DiffRun& run, const ArrayInfo& array,
                    const Difference& found) {
  const int64_t elements = NumElements(array.shape);
  Json json = {{"differing", found.elements},
               {"elements", elements},
               {"position", found.position},
               {"a", ElementJson(found.a, 0)},
               {"b", ElementJson(found.b, 0)}};
  std::string line =
      absl::StrFormat("values of %s: %d of %d elements differ",
                      QuotedText(array.key), found.elements, elements);
  const std::string where = ShapeText(found.position);
  if (run.options.tolerance) {
    json["distance"] = RealJson(found.largest);
    absl::StrAppendFormat(&line, " by more than %s, most at %s by %s",
                          RealText(*run.options.tolerance), where,
                          RealText(found.largest));
  } else {
    absl::StrAppendFormat(&line, ", first at %s", where);
  }
  absl::StrAppendFormat(&line, ": %s in A, %s in B", ElementText(found.a, 0),
                        ElementText(found.b, 0));
  Tell(run, "values", array.key, std::move(json), line);
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
  TellDifference(run, array, *found);
  return false;
}

// The same for each field of structs, whose raw bytes are meaningless.
StatusOr<bool> CompareFields(DiffRun& run, const ArrayInfo& array) {
  const StatusOr<std::vector<ArrayInfo>> fields = FieldsOf(run.a, array);
  if (!fields.ok()) return fields.status();
  bool are_same = true;
  for (const ArrayInfo& field : *fields) {
    const StatusOr<bool> same = CompareValues(run, field);
    if (!same.ok()) return same.status();
    are_same = are_same && *same;
  }
  return are_same;
}

Status CompareArray(DiffRun& run, const ArrayInfo& a, const ArrayInfo& b) {
  if (!CompareStructure(run, a, b)) {
    ++run.structures;
    return absl::OkStatus();
  }
  StatusOr<bool> same = true;
  if (!run.options.keys_only) {
    same = a.fields.empty() ? CompareValues(run, a) : CompareFields(run, a);
  }
  if (!same.ok()) return same.status();
  ++(*same ? run.equal : run.values);
  return absl::OkStatus();
}

// Walks through both lists, which are sorted by key.
Status CompareAll(DiffRun& run) {
  const std::vector<ArrayInfo>& in_a = run.a.info().arrays;
  const std::vector<ArrayInfo>& in_b = run.b.info().arrays;
  auto a = in_a.begin();
  auto b = in_b.begin();
  while (a != in_a.end() || b != in_b.end()) {
    if (b == in_b.end() || (a != in_a.end() && a->key < b->key)) {
      TellOnly(run, 'A', *a++);
      ++run.only_a;
    } else if (a == in_a.end() || b->key < a->key) {
      TellOnly(run, 'B', *b++);
      ++run.only_b;
    } else {
      const Status status = CompareArray(run, *a++, *b++);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// True if a handler stored the value. Other values are arrays, which are
// compared as arrays.
bool HasHandler(const ValueInfo& value) {
  return value.typestr != kScalarTypestr && value.typestr != kArrayTypestr &&
         value.typestr != kStringTypestr;
}

// Counts a value without arrays that is in only one of the checkpoints.
int64_t CountOnly(DiffRun& run, char side, const ValueInfo& value) {
  if (!value.parts.empty()) return 0;  // its arrays were reported
  Tell(run, side == 'A' ? "only_in_a" : "only_in_b", value.key,
       {{"type", TextJson(value.typestr)}},
       absl::StrFormat("only in %c: %s %s", side, QuotedText(value.key),
                       PrintableName(value.typestr)));
  return 1;
}

void CompareTypes(DiffRun& run, const ValueInfo& a, const ValueInfo& b) {
  if (!HasHandler(a) && !HasHandler(b)) return;
  if (a.typestr == b.typestr) return;
  Tell(run, "type", a.key,
       {{"a", TextJson(a.typestr)}, {"b", TextJson(b.typestr)}},
       absl::StrFormat("type of %s: %s in A, %s in B", QuotedText(a.key),
                       PrintableName(a.typestr), PrintableName(b.typestr)));
  ++run.structures;
}

// Compares what handlers have stored besides arrays; CompareAll compares the
// arrays.
void CompareHandled(DiffRun& run) {
  const std::vector<ValueInfo> in_a = run.a.Values();
  const std::vector<ValueInfo> in_b = run.b.Values();
  auto a = in_a.begin();
  auto b = in_b.begin();
  while (a != in_a.end() || b != in_b.end()) {
    if (b == in_b.end() || (a != in_a.end() && a->key < b->key)) {
      run.only_a += CountOnly(run, 'A', *a++);
    } else if (a == in_a.end() || b->key < a->key) {
      run.only_b += CountOnly(run, 'B', *b++);
    } else {
      CompareTypes(run, *a++, *b++);
    }
  }
}

bool FoundNothing(const DiffRun& run) {
  return run.only_a + run.only_b + run.structures + run.values == 0;
}

int PrintAsJson(DiffRun& run) {
  const bool equal = FoundNothing(run);
  PrintJson(
      {{"a", TextJson(run.a.info().path)},
       {"b", TextJson(run.b.info().path)},
       {"compared", run.options.keys_only ? "keys" : "values"},
       {"tolerance",
        run.options.tolerance ? RealJson(*run.options.tolerance) : Json()},
       {"equal", equal},
       {"counts",
        {{"only_in_a", run.only_a},
         {"only_in_b", run.only_b},
         {"other_type_or_shape", run.structures},
         {"other_values", run.values},
         {"equal", run.equal}}},
       {"differences", std::move(run.found)}});
  return equal ? 0 : 1;
}

int PrintSummary(const DiffRun& run) {
  const char* what = run.options.keys_only   ? "keys, dtypes and shapes"
                     : run.options.tolerance ? "values within the tolerance"
                                             : "all values";
  if (FoundNothing(run)) {
    Print("equal: %s, %s, %s\n", CountText(run.equal, "array"),
          BytesText(run.a.info().bytes), what);
    return 0;
  }
  Print(
      "different: %d only in A, %d only in B, %d of another type or shape, %d "
      "with other values; %d equal\n",
      run.only_a, run.only_b, run.structures, run.values, run.equal);
  return 1;
}

}  // namespace

int Diff(const std::string& a, const std::string& b,
         const DiffOptions& options) {
  const StatusOr<CheckpointReader> in_a = CheckpointReader::Open(a);
  if (!in_a.ok()) return Fail(in_a.status(), options.json);
  const StatusOr<CheckpointReader> in_b = CheckpointReader::Open(b);
  if (!in_b.ok()) return Fail(in_b.status(), options.json);
  if (!options.json) {
    Print("A: %s\nB: %s\n", in_a->info().path, in_b->info().path);
  }
  const CheckpointReader kept_a = in_a->KeepingFilesOpen();
  const CheckpointReader kept_b = in_b->KeepingFilesOpen();
  DiffRun run{.a = kept_a,
              .b = kept_b,
              .options = options,
              .total = in_a->info().bytes};
  const Status status = CompareAll(run);
  if (status.ok()) CompareHandled(run);
  run.bar.Clear();
  if (!status.ok()) return Fail(status, options.json);
  return options.json ? PrintAsJson(run) : PrintSummary(run);
}

}  // namespace belay::tools
