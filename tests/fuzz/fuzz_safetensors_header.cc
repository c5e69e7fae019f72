// Fed: eight bytes with the length of the tensors' data, and the beginning of a
// safetensors file. Tensors that can be read fill the data without holes, and
// the header is written and read back as it was.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fuzz_input.h"
#include "fuzz_target.h"
#include "safetensors/header.h"
#include "safetensors/import_safetensors.h"

namespace belay::fuzz_safetensors_header {
namespace {

using safetensors::FileHeader;
using safetensors::FileTensor;

constexpr size_t kNumberBytes = 8;
constexpr int kRanks = 3;

void CheckTensors(const FileHeader& header, int64_t data_bytes) {
  int64_t end = 0;
  for (const FileTensor& tensor : header.tensors) {
    Require(tensor.begin == end && tensor.end >= tensor.begin,
            "tensors follow each other");
    end = tensor.end;
    if (!tensor.foreign_dtype.empty()) continue;
    const StatusOr<int64_t> elements = CheckedNumElements(tensor.shape);
    Require(elements.ok() && *elements * DTypeSize(tensor.dtype) ==
                                 tensor.end - tensor.begin,
            "a tensor has the bytes of its shape");
  }
  Require(end == data_bytes, "tensors fill the data");
}

// The shares of all ranks together are all of the data.
void CheckShares(const FileHeader& header, int64_t data_bytes) {
  int64_t bytes = 0;
  for (const auto& part :
       safetensors::PlanImport({{0, header.tensors}}, kRanks)) {
    Require(part.shards.size() == part.places.size(), "each shard has a place");
    for (const ShardInfo& shard : part.shards) {
      bytes += NumElements(shard.box.shape) * DTypeSize(shard.dtype);
    }
  }
  Require(bytes == data_bytes, "ranks import all of the data");
}

void Run(std::string_view input) {
  FuzzInput in(input);
  const auto data_bytes = static_cast<int64_t>(in.Number<uint64_t>() >> 1);
  const std::string_view file = in.Rest();
  const int64_t most = INT64_MAX - std::ssize(file);
  const StatusOr<int64_t> length = safetensors::HeaderLength(
      file.substr(0, kNumberBytes),
      std::ssize(file) + (data_bytes < most ? data_bytes : most));
  if (!length.ok()) return;
  const std::string_view text = file.substr(kNumberBytes, *length);
  const StatusOr<FileHeader> header =
      safetensors::ParseHeader(text, data_bytes);
  if (!header.ok()) return;
  CheckTensors(*header, data_bytes);
  bool is_known = true;
  for (const FileTensor& tensor : header->tensors) {
    is_known = is_known && tensor.foreign_dtype.empty();
  }
  if (!is_known) return;
  if (data_bytes < int64_t{1} << 50) CheckShares(*header, data_bytes);
  const StatusOr<std::string> written = safetensors::HeaderText(*header);
  Require(written.ok(), "a header that was read can be written");
  const StatusOr<FileHeader> again = safetensors::ParseHeader(
      std::string_view(*written).substr(kNumberBytes), data_bytes);
  Require(again.ok() && *again == *header, "a header comes back as it was");
}

// The largest number behind a comma and before a bracket is where data ends.
void Repair(std::string& input) {
  if (input.size() < 2 * kNumberBytes) return;
  uint64_t end = 0;
  for (size_t at = input.find(']'); at != input.npos;
       at = input.find(']', at + 1)) {
    const size_t comma = input.rfind(',', at);
    if (comma == input.npos) continue;
    end =
        std::max<uint64_t>(end, std::strtoull(&input[comma + 1], nullptr, 10));
  }
  end <<= 1;
  const uint64_t length = input.size() - 2 * kNumberBytes;
  std::memcpy(input.data(), &end, kNumberBytes);
  std::memcpy(input.data() + kNumberBytes, &length, kNumberBytes);
}

const RegisterFuzzTarget kTarget({"safetensors_header", Run, Repair});

}  // namespace
}  // namespace belay::fuzz_safetensors_header
