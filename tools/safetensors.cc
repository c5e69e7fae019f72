#include "belay/safetensors.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "commands.h"
#include "json_output.h"
#include "mpi_session.h"
#include "number_text.h"
#include "progress_bar.h"

namespace belay::tools {
namespace {

void PrintFiles(const std::vector<SafetensorsInfo>& files) {
  size_t width = 4;
  for (const SafetensorsInfo& file : files) {
    width = std::max(width, WidthOf(PrintableName(file.path)));
  }
  Print("\n%s  %7s  %10s\n", Padded("file", width), "tensors", "bytes");
  for (const SafetensorsInfo& file : files) {
    Print("%s  %7d  %10s\n", Padded(PrintableName(file.path), width),
          file.num_tensors, BytesText(file.bytes));
  }
}

void PrintLeftOut(const std::vector<LeftOut>& all) {
  if (!all.empty()) Print("\n");
  for (const LeftOut& one : all) {
    Print("left out: %s (%s)\n", PrintableName(one.name), one.reason);
  }
}

// Describes what was compared with checksums.
std::string ChecksumText(const ExportResult& result) {
  if (result.blocks_verified == 0) return "no checksums";
  const std::string blocks = CountText(result.blocks_verified, "block");
  if (result.blocks_partial == 0) return blocks + " checked";
  return absl::StrFormat("%s checked, %d in part only", blocks,
                         result.blocks_partial);
}

// Adds entries "NAME=TEXT" to the options.
Status AddMetadata(const std::vector<std::string>& texts,
                   ExportOptions& options) {
  for (const std::string& text : texts) {
    const size_t at = text.find('=');
    if (at == text.npos) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "export: metadata has no \"=\" (need NAME=TEXT, found \"%s\")",
          text));
    }
    options.metadata[text.substr(0, at)] = text.substr(at + 1);
  }
  return absl::OkStatus();
}

void PrintResult(const ExportResult& result) {
  Print("%s: step %d, %s, %s to %s, %s\n", result.path, result.step,
        CountText(result.num_tensors, "tensor"), BytesText(result.bytes),
        CountText(std::ssize(result.files), "file"), ChecksumText(result));
  PrintFiles(result.files);
  if (!result.index.empty()) Print("%s\n", PrintableName(result.index));
  PrintLeftOut(result.left_out);
}

void PrintResult(const ImportResult& result) {
  Print("%s: step %d, %s, %s of metadata, %s from %s\n", result.saved.path,
        result.saved.step, CountText(result.num_tensors, "tensor"),
        CountText(result.num_texts, "text"), BytesText(result.bytes),
        CountText(std::ssize(result.files), "file"));
  PrintFiles(result.files);
  PrintLeftOut(result.left_out);
}

Json FilesJson(const std::vector<SafetensorsInfo>& files) {
  Json all = Json::array();
  for (const SafetensorsInfo& file : files) {
    all.push_back({{"path", TextJson(file.path)},
                   {"tensors", file.num_tensors},
                   {"bytes", file.bytes}});
  }
  return all;
}

Json LeftOutJson(const std::vector<LeftOut>& left_out) {
  Json all = Json::array();
  for (const LeftOut& one : left_out) {
    all.push_back(
        {{"name", TextJson(one.name)}, {"reason", TextJson(one.reason)}});
  }
  return all;
}

Json ToJson(const ExportResult& result) {
  return {{"path", TextJson(result.path)},
          {"step", result.step},
          {"tensors", result.num_tensors},
          {"bytes", result.bytes},
          {"files", FilesJson(result.files)},
          {"index", TextOrNull(result.index)},
          {"left_out", LeftOutJson(result.left_out)},
          {"blocks_verified", result.blocks_verified},
          {"blocks_partial", result.blocks_partial}};
}

Json ToJson(const ImportResult& result) {
  return {{"path", TextJson(result.saved.path)},
          {"step", result.saved.step},
          {"tensors", result.num_tensors},
          {"texts", result.num_texts},
          {"bytes", result.bytes},
          {"files", FilesJson(result.files)},
          {"left_out", LeftOutJson(result.left_out)}};
}

}  // namespace

int Export(const std::string& path, std::optional<int64_t> step,
           const std::string& out, const std::vector<std::string>& metadata,
           ExportOptions options, bool json) {
  const MpiSession mpi;
  const Status status = AddMetadata(metadata, options);
  if (!status.ok()) return mpi.is_first() ? Fail(status, json) : 2;
  const StatusOr<ExportResult> result =
      WithMpi(mpi, [&](const Comm& comm, ProgressBar& bar) {
        options.progress = [&](int64_t done, int64_t total) {
          bar.Show(done, total);
        };
        return ExportSafetensors(comm, path, step, out, options);
      });
  return Finish(
      mpi, result, json, [](const ExportResult& done) { PrintResult(done); },
      [](const ExportResult& done) { return ToJson(done); });
}

int Import(const std::string& in, const std::string& dir, int64_t step,
           ImportOptions options, bool json) {
  const MpiSession mpi;
  const StatusOr<ImportResult> result =
      WithMpi(mpi, [&](const Comm& comm, ProgressBar& bar) {
        options.progress = [&](int64_t done, int64_t total) {
          bar.Show(done, total);
        };
        return ImportSafetensors(comm, {in}, dir, step, options);
      });
  return Finish(
      mpi, result, json, [](const ImportResult& done) { PrintResult(done); },
      [](const ImportResult& done) { return ToJson(done); });
}

}  // namespace belay::tools
