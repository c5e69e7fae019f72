// Fed: the messages of an object's header, each as a byte with its kind, a byte
// with its length, and its bytes. A header with them is read back as it was, or
// refused; in a file, what they describe is found as a dataset that lies in it,
// or refused.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/chunked_dataset.h"
#include "format/file_metadata.h"
#include "format/file_reader.h"
#include "fuzz_input.h"
#include "fuzz_target.h"
#include "hdf5_bytes.h"

namespace belay::fuzz_object_header {
namespace {

constexpr size_t kMaxMessages = 64;
constexpr int64_t kMaxChunkBytes = int64_t{8} << 20;
constexpr uint8_t kNil = 0x00;
constexpr uint8_t kContinuation = 0x10;

std::vector<h5::HeaderMessage> MessagesOf(std::string_view input) {
  std::vector<h5::HeaderMessage> messages;
  FuzzInput in(input);
  while (!in.empty() && messages.size() < kMaxMessages) {
    const auto kind = h5::HeaderMessage::Kind{in.Number<uint8_t>()};
    messages.push_back({kind, in.Text()});
  }
  return messages;
}

void CheckMessages(const std::vector<h5::HeaderMessage>& put,
                   const std::vector<h5::StoredMessage>& read) {
  size_t next = 0;
  for (const h5::HeaderMessage& message : put) {
    const auto kind = static_cast<uint8_t>(message.kind);
    if (kind == kContinuation) return;  // what follows is from elsewhere
    if (kind == kNil) continue;
    Require(next < read.size() && read[next].kind == kind &&
                read[next].bytes == message.bytes,
            "messages come back as they were");
    ++next;
  }
  Require(next == read.size(), "there are no more messages than were put");
}

void ReadFirstChunk(h5::BoundedFile& file, const h5::ChunkedDataset& dataset) {
  const int64_t bytes = NumElements(dataset.chunk) * dataset.element_bytes;
  const StatusOr<int64_t> elements = CheckedNumElements(dataset.shape);
  if (bytes > kMaxChunkBytes || !elements.ok() || *elements == 0) return;
  const StatusOr<std::string> chunk =
      h5::ReadChunk(file, dataset, Shape(dataset.shape.size(), 0));
  Require(!chunk.ok() || std::ssize(*chunk) == bytes,
          "a chunk has the bytes of its shape");
}

void CheckFound(const std::string& bytes) {
  h5::BoundedFile file = FileInMemory(bytes);
  StatusOr<h5::FileReader> reader = h5::FileReader::Open(file);
  if (!reader.ok()) return;
  const StatusOr<std::optional<h5::ContiguousDataset>> found =
      reader->Find("d");
  const auto chunked = reader->FindChunked("d");
  if (chunked.ok() && chunked->has_value()) ReadFirstChunk(file, **chunked);
  // As a group: what it holds under any name.
  reader->Find("d/x").IgnoreError();
  if (!found.ok() || !found->has_value()) return;
  const h5::ContiguousDataset& dataset = **found;
  Require(dataset.bytes == 0 ||
              (dataset.offset >= 0 && dataset.bytes <= file.size() &&
               dataset.offset <= file.size() - dataset.bytes),
          "a dataset lies in its file");
}

void Run(std::string_view input) {
  const std::vector<h5::HeaderMessage> messages = MessagesOf(input);
  std::string objects;
  h5::PutObjectHeader(objects, messages);
  const int64_t root =
      h5::PutGroup(objects, kFuzzObjectsAt, {{"d", kFuzzObjectsAt}});
  std::string bytes = FileOfObjects(objects, root);
  h5::BoundedFile file = FileInMemory(bytes);
  const StatusOr<std::vector<h5::StoredMessage>> read =
      h5::ReadObjectHeader(file, kFuzzObjectsAt);
  if (read.ok()) CheckMessages(messages, *read);
  Require(h5::FileReader::Open(file).ok(),
          "a file that was made can be opened");
  CheckFound(bytes);
  // With continuation blocks among the messages.
  RepairHdf5(bytes, [](h5::BoundedFile&, h5::FileReader& reader) {
    reader.Find("d").IgnoreError();
    reader.Find("d/x").IgnoreError();
  });
  CheckFound(bytes);
}

const RegisterFuzzTarget kTarget({"object_header", Run});

}  // namespace
}  // namespace belay::fuzz_object_header
