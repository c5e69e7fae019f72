#include "hdf5_bytes.h"

#include <cstddef>
#include <cstring>
#include <optional>

#include "format/file_metadata.h"

namespace belay {
namespace {

constexpr std::string_view kSuperblock("\x89HDF\r\n\x1a\n", 8);
constexpr size_t kEndAddressAt = 28;
constexpr size_t kChecksumLength = 4;
constexpr size_t kLeastBytes = 12;

// Where these bytes have their checksum, which they count as zeros, if they are
// a structure that has one.
std::optional<size_t> ChecksumPlace(std::string_view bytes) {
  constexpr std::string_view kSignatures[] = {
      "OHDR", "OCHK", "FRHP", "FHIB", "BTHD", "BTIN", "BTLF", "FAHD", "FADB"};
  // Behind the head of a block whose offsets in the heap have four bytes.
  constexpr size_t kInHeapBlock = 4 + 1 + 8 + 4;
  const size_t last = bytes.size() - kChecksumLength;
  if (bytes.size() < kLeastBytes) return std::nullopt;
  if (bytes.starts_with("FHDB") && last > kInHeapBlock) return kInHeapBlock;
  if (bytes.starts_with(kSuperblock)) {
    if (std::ssize(bytes) != kFuzzObjectsAt) return std::nullopt;
    return last;
  }
  for (const std::string_view signature : kSignatures) {
    if (bytes.starts_with(signature)) return last;
  }
  return std::nullopt;
}

void PutRightChecksum(char* begin, size_t bytes) {
  const std::optional<size_t> place = ChecksumPlace({begin, bytes});
  if (!place) return;
  const bool is_last = *place + kChecksumLength == bytes;
  std::memset(begin + *place, 0, kChecksumLength);
  const uint32_t sum = h5::MetadataChecksum({begin, is_last ? *place : bytes});
  std::memcpy(begin + *place, &sum, sizeof(sum));
}

}  // namespace

h5::BoundedFile FileInMemory(std::string_view bytes) {
  return {"input", std::ssize(bytes), kFuzzBudget,
          [bytes](int64_t offset, void* data, int64_t size) {
            std::memcpy(data, bytes.data() + offset, size);
            return absl::OkStatus();
          }};
}

void RepairHdf5(
    std::string& bytes,
    absl::FunctionRef<void(h5::BoundedFile&, h5::FileReader&)> look) {
  if (std::ssize(bytes) < kFuzzObjectsAt) return;
  const auto length = static_cast<int64_t>(bytes.size());
  std::memcpy(bytes.data() + kEndAddressAt, &length, sizeof(length));
  // Whatever the reader asks for gets the right checksum just before.
  h5::BoundedFile file("input", length, kFuzzBudget,
                       [&bytes](int64_t offset, void* data, int64_t size) {
                         PutRightChecksum(bytes.data() + offset,
                                          static_cast<size_t>(size));
                         std::memcpy(data, bytes.data() + offset, size);
                         return absl::OkStatus();
                       });
  StatusOr<h5::FileReader> reader = h5::FileReader::Open(file);
  if (reader.ok()) look(file, *reader);
}

std::string FileOfObjects(std::string_view objects, int64_t root) {
  std::string out(kSuperblock);
  h5::PutNumber(out, 3, 1);  // version
  h5::PutNumber(out, 8, 1);  // bytes of an address
  h5::PutNumber(out, 8, 1);  // and of a length
  h5::PutNumber(out, 0, 1);  // nobody has it open
  h5::PutAddress(out, 0);
  h5::PutAddress(out, h5::kNoAddress);
  h5::PutAddress(out, kFuzzObjectsAt + std::ssize(objects));
  h5::PutAddress(out, root);
  h5::PutChecksum(out, 0);
  return out.append(objects);
}

}  // namespace belay
