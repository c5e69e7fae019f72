// The rows of ExportOptions, as described in core/option_table.h.

#ifndef BELAY_SAFETENSORS_EXPORT_OPTIONS_H_
#define BELAY_SAFETENSORS_EXPORT_OPTIONS_H_

#include <tuple>

#include "belay/safetensors.h"
#include "core/option_table.h"

namespace belay {

template <>
struct OptionTable<ExportOptions> {
  static constexpr const char* kName = "ExportOptions";
  using O = ExportOptions;
  static constexpr auto kRows = std::make_tuple(
      Option("keys", &O::keys, "regular expressions for the keys to export",
             {.usual = "all"}),
      Option("metadata", &O::metadata,
             "strings for the metadata of every file, beside those of the "
             "checkpoint"),
      Option("leave_out_others", &O::leave_out_others,
             "leave out what the format cannot represent, instead of refusing"),
      Option("max_file_bytes", &O::max_file_bytes,
             "split the export into files of this size; 0: one file",
             {.bounds = AtLeast(0)}),
      Option("overwrite", &O::overwrite, "replace an export of that name"),
      Option("checksums", &O::checksums, "verify the blocks that are read"),
      Option("durable", &O::durable, "sync the files"),
      Option("max_bytes_in_flight", &O::max_bytes_in_flight,
             "per rank: memory for values in transit",
             {.bounds = kBytesInFlight, .usual = "256 MiB"}),
      Option("deadline_seconds", &O::deadline_seconds, "as for saves",
             kDeadline),
      Option(
          "progress", &O::progress,
          "is called with the bytes that this rank has written, and will write",
          {.may_differ = true}));
};

}  // namespace belay

#endif  // BELAY_SAFETENSORS_EXPORT_OPTIONS_H_
