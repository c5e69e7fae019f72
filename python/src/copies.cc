// Copies steps to safetensors files, from them, and to other steps. Also
// verifies steps.

#include <pybind11/stl.h>

#include <mutex>
#include <utility>

#include "belay/checkpoint_reader.h"
#include "belay/reader/copy_checkpoint.h"
#include "belay/safetensors.h"
#include "callbacks.h"
#include "comm.h"
#include "errors.h"
#include "options.h"
#include "safetensors/export_options.h"
#include "save_restore.h"

namespace belay::python {
namespace {

py::object MadeRecord(const char* name, const py::dict& fields) {
  return py::module_::import("belay._copies").attr(name)(**fields);
}

py::list FilesOf(const std::vector<SafetensorsInfo>& files) {
  py::list all;
  for (const SafetensorsInfo& file : files) {
    py::dict fields;
    fields["path"] = file.path;
    fields["num_tensors"] = file.num_tensors;
    fields["nbytes"] = file.bytes;
    all.append(MadeRecord("SafetensorsFile", fields));
  }
  return all;
}

py::dict LeftOutOf(const std::vector<LeftOut>& left_out) {
  py::dict all;
  for (const LeftOut& one : left_out) all[py::str(one.name)] = one.reason;
  return all;
}

py::object ExportTensors(py::handle comm, py::handle directory, py::handle step,
                         py::handle out, const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm, DeadlineOf(given));
  const CommUse use(kept.is_in_use);
  std::string from;
  std::string to;
  std::optional<int64_t> number;
  ExportOptions options;
  const Call call =
      CallOn(kept.comm, DeadlineOf(given), "export", directory, step);
  PrepareTogether(call, [&] {
    from = PathOf(directory);
    to = PathOf(out, "out");
    number = StepOf(step);
    OptionReader reader(given);
    reader.ReadAll(options);
    reader.Finish();
  });
  const ExportResult result = UnlockedWithCallbacks(call, [&] {
    return ExportSafetensors(kept.comm, from, number, to, options);
  });
  py::dict fields;
  fields["path"] = result.path;
  fields["step"] = result.step;
  fields["files"] = FilesOf(result.files);
  fields["index"] = result.index;
  fields["num_tensors"] = result.num_tensors;
  fields["nbytes"] = result.bytes;
  fields["left_out"] = LeftOutOf(result.left_out);
  return MadeRecord("ExportResult", fields);
}

py::object ImportTensors(py::handle comm, py::handle files,
                         py::handle directory, py::handle step,
                         const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm, DeadlineOf(given));
  const CommUse use(kept.is_in_use);
  std::vector<std::string> in;
  std::string path;
  int64_t number = 0;
  ImportOptions options;
  const Call call =
      CallOn(kept.comm, DeadlineOf(given), "import", directory, step);
  PrepareTogether(call, [&] {
    if (py::isinstance<py::list>(files) || py::isinstance<py::tuple>(files)) {
      for (const py::handle file : files) in.push_back(PathOf(file, "files"));
    } else {
      in.push_back(PathOf(files, "files"));
    }
    path = PathOf(directory);
    number = NumberedStepOf(step);
    OptionReader reader(given);
    reader.Read("keys", options.keys);
    reader.Read("file_metadata", options.metadata);
    reader.Read("leave_out_others", options.leave_out_others);
    reader.Read("progress", options.progress);
    reader.ReadAll(options.save);
    reader.Finish();
  });
  const ImportResult result = UnlockedWithCallbacks(call, [&] {
    return ImportSafetensors(kept.comm, in, path, number, options);
  });
  py::dict fields;
  fields["files"] = FilesOf(result.files);
  fields["num_tensors"] = result.num_tensors;
  fields["num_texts"] = result.num_texts;
  fields["nbytes"] = result.bytes;
  fields["left_out"] = LeftOutOf(result.left_out);
  fields["saved"] = result.saved;
  return MadeRecord("ImportResult", fields);
}

py::object CopyStep(py::handle comm, py::handle source, py::handle step,
                    py::handle directory, py::handle to_step,
                    const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm, DeadlineOf(given));
  const CommUse use(kept.is_in_use);
  std::string from;
  std::string to;
  std::optional<int64_t> number;
  std::optional<int64_t> to_number;
  CopyOptions options;
  const Call call = CallOn(kept.comm, DeadlineOf(given), "copy", source, step);
  PrepareTogether(call, [&] {
    from = PathOf(source, "source");
    to = PathOf(directory);
    number = StepOf(step);
    to_number = StepOf(to_step);
    OptionReader reader(given);
    reader.Read("keys", options.keys);
    reader.Read("leave_out", options.leave_out);
    const py::object rules = reader.Take("rules");
    if (rules) {
      options.rules = ValueOrThrow(
          ReadConversionRules(PathOf(rules, "rules"), from, number));
    }
    const py::object scratch = reader.Take("scratch");
    if (scratch) options.scratch = PathOf(scratch, "scratch");
    reader.Read("progress", options.progress);
    reader.ReadAll(options.save);
    reader.Finish();
    options.checksums = options.save.checksums;
  });
  const CopyResult result = UnlockedWithCallbacks(call, [&] {
    return CopyCheckpoint(kept.comm, from, number, to, to_number, options);
  });
  py::dict fields;
  fields["source"] = result.from;
  fields["num_copied"] = result.num_values;
  fields["num_made"] = result.num_made;
  fields["num_left_out"] = result.num_left_out;
  fields["nbytes"] = result.bytes;
  fields["without_objects"] = result.without_objects;
  fields["saved"] = result.saved;
  return MadeRecord("CopyResult", fields);
}

py::object Verify(py::handle path, const py::dict& given) {
  OptionReader reader(given);
  std::function<void(int64_t, int64_t)> progress;
  reader.Read("progress", progress);
  reader.Finish();
  const std::string text = PathOf(path, "path");
  const std::string step = Unlocked([&] { return ResolveStep(text); });
  const VerifyResult result = Unlocked([&] {
    const std::lock_guard lock(Hdf5Mutex());
    return VerifyCheckpoint(step, progress);
  });
  ThrowPendingExit();
  py::dict fields;
  fields["path"] = step;
  fields["blocks"] = result.blocks;
  fields["nbytes"] = result.bytes;
  fields["damage"] = result.damage;
  return MadeRecord("VerifyResult", fields);
}

}  // namespace

void DefineCopies(py::module_& module) {
  module.def("export_safetensors", &ExportTensors);
  module.def("import_safetensors", &ImportTensors);
  module.def("copy", &CopyStep);
  module.def("verify", &Verify);
}

}  // namespace belay::python
