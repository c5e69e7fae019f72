#include "format/chunk_filters.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/status_macros.h"
#include "core/text.h"
#include "format/bounded_file.h"

namespace belay::h5 {
namespace {

enum FilterId { kDeflate = 1, kShuffle = 2, kFletcher32 = 3 };

constexpr int64_t kFletcherBytes = 4;
// zlib makes a byte of no more than these.
constexpr int64_t kMostInflated = 1040;

Status DamagedChunk(std::string_view what) {
  return absl::DataLossError(Cat("a chunk is damaged: ", what));
}

// As HDF5 sums: 16 bits each, most significant byte first.
uint32_t Fletcher32(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  uint32_t low = 0;
  uint32_t high = 0;
  const auto fold = [&] {
    low = (low & 0xffff) + (low >> 16);
    high = (high & 0xffff) + (high >> 16);
  };
  const size_t words = bytes.size() / 2;
  constexpr size_t kWordsWithoutOverflow = 360;
  for (size_t word = 0; word < words;) {
    const size_t end = std::min(words, word + kWordsWithoutOverflow);
    for (; word < end; ++word) {
      low += uint32_t{at(2 * word)} << 8 | at(2 * word + 1);
      high += low;
    }
    fold();
  }
  if (bytes.size() % 2 != 0) {
    low += uint32_t{at(bytes.size() - 1)} << 8;
    high += low;
    fold();
  }
  fold();
  return high << 16 | low;
}

StatusOr<std::string> UndoFletcher32(std::string stored) {
  if (std::ssize(stored) < kFletcherBytes) {
    return DamagedChunk("it is too short for its checksum");
  }
  const size_t end = stored.size() - kFletcherBytes;
  const auto found = static_cast<uint32_t>(
      MetadataReader(std::string_view(stored).substr(end)).Number(4));
  stored.resize(end);
  if (found != Fletcher32(stored)) return DamagedChunk("its checksum is wrong");
  return stored;
}

// Into at most `most` bytes.
StatusOr<std::string> Inflate(const std::string& stored, int64_t most) {
  // So that memory is only taken for what can come of these bytes.
  most = std::min(most, kMostInflated * (std::ssize(stored) + 1));
  std::string out(static_cast<size_t>(most), '\0');
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) {
    return absl::ResourceExhaustedError("no memory to inflate a chunk");
  }
  size_t taken = 0;
  size_t made = 0;
  int result = Z_OK;
  while (result == Z_OK) {
    constexpr size_t kMostOfCall = std::numeric_limits<uInt>::max();
    const size_t in = std::min(stored.size() - taken, kMostOfCall);
    const size_t room = std::min(out.size() - made, kMostOfCall);
    stream.next_in = reinterpret_cast<Bytef*>(
        const_cast<char*>(stored.data() + taken));  // zlib does not write there
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + made);
    stream.avail_out = static_cast<uInt>(room);
    result = inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in;
    made += room - stream.avail_out;
  }
  inflateEnd(&stream);
  if (result != Z_STREAM_END) {
    return DamagedChunk(result == Z_MEM_ERROR
                            ? "no memory to inflate it"
                            : "it cannot be inflated to its size");
  }
  out.resize(made);
  return out;
}

// Bytes of the same significance lie together; what is left over follows.
std::string Unshuffled(std::string stored, size_t width) {
  const size_t count = stored.size() / width;
  if (count <= 1) return stored;  // however wide a file says they are
  std::string out(stored.size(), '\0');
  for (size_t byte = 0; byte < width; ++byte) {
    const char* from = stored.data() + byte * count;
    char* to = out.data() + byte;
    for (size_t i = 0; i < count; ++i) to[i * width] = from[i];
  }
  std::copy(stored.begin() + static_cast<int64_t>(count * width), stored.end(),
            out.begin() + static_cast<int64_t>(count * width));
  return out;
}

}  // namespace

bool CanUndo(const std::vector<Filter>& filters) {
  std::set<int> ids;
  return std::all_of(filters.begin(), filters.end(), [&](const Filter& filter) {
    const bool is_known = filter.id == kDeflate || filter.id == kShuffle ||
                          filter.id == kFletcher32;
    return is_known && ids.insert(filter.id).second;
  });
}

StatusOr<std::vector<Filter>> ParseFilterPipeline(std::string_view message) {
  constexpr uint64_t kMostFilters = 32;  // of HDF5
  constexpr uint64_t kMostParameters = 64;
  constexpr int kFirstNamed = 256;
  MetadataReader in(message);
  const uint64_t version = in.Number(1);
  const uint64_t count = in.Number(1);
  if (version != 2 || count == 0 || count > kMostFilters) {
    return absl::DataLossError("the filters of a dataset are damaged");
  }
  std::vector<Filter> filters;
  for (uint64_t i = 0; i < count; ++i) {
    Filter filter{.id = static_cast<int>(in.Number(2))};
    const uint64_t name_bytes = filter.id < kFirstNamed ? 0 : in.Number(2);
    in.Number(2);  // whether it may be left out
    const uint64_t parameters = in.Number(2);
    in.Bytes(name_bytes);
    if (parameters > kMostParameters) {
      return absl::DataLossError("a filter of a dataset has too many numbers");
    }
    for (uint64_t p = 0; p < parameters && in.ok(); ++p) {
      filter.parameters.push_back(static_cast<uint32_t>(in.Number(4)));
    }
    filters.push_back(std::move(filter));
  }
  if (!in.ok()) {
    return absl::DataLossError("the filters of a dataset are damaged");
  }
  // One more moves the same bytes once more, and says no more.
  if (const auto found = std::ranges::count(filters, kShuffle, &Filter::id);
      found > 1) {
    return absl::DataLossError(
        Cat("a dataset is shuffled several times (need at most 1 shuffle, "
            "found ",
            found, ")"));
  }
  return filters;
}

int64_t MostFilteredBytes(std::span<const Filter> filters, int64_t bytes) {
  for (const Filter& filter : filters) {
    // Bytes that do not compress grow a little.
    if (filter.id == kDeflate) bytes += bytes / 512 + 64;
    if (filter.id == kFletcher32) bytes += kFletcherBytes;
  }
  return bytes;
}

std::optional<int64_t> MostUnfilteredBytes(std::span<const Filter> filters,
                                           uint32_t left_out, int64_t stored) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  int64_t bytes = stored;
  for (size_t i = 0; i < filters.size(); ++i) {
    if (i < 32 && (left_out >> i & 1) != 0) continue;
    const int id = filters[i].id;
    if (id == kDeflate) {
      bytes = bytes < kMost / kMostInflated - 1 ? kMostInflated * (bytes + 1)
                                                : kMost;
    } else if (id != kShuffle && id != kFletcher32) {
      return std::nullopt;
    }
  }
  return bytes;
}

StatusOr<std::string> UndoFilters(std::string stored,
                                  const std::vector<Filter>& filters,
                                  uint32_t left_out, int64_t bytes) {
  const int64_t can_hold = kMostInflated * (std::ssize(stored) + 1);
  if (bytes > can_hold) {
    return DamagedChunk(Cat(std::ssize(stored), " stored bytes cannot hold it ",
                            "(need ", bytes, " bytes, found at most ", can_hold,
                            ")"));
  }
  for (size_t i = filters.size(); i-- > 0;) {
    if ((left_out >> i & 1) != 0) continue;
    switch (filters[i].id) {
      case kDeflate: {
        const int64_t most =
            MostFilteredBytes(std::span(filters).first(i), bytes);
        BELAY_ASSIGN_OR_RETURN(stored, Inflate(stored, most));
        break;
      }
      case kFletcher32: {
        BELAY_ASSIGN_OR_RETURN(stored, UndoFletcher32(std::move(stored)));
        break;
      }
      case kShuffle:
        // HDF5 adds the bytes of an element when it makes a dataset.
        if (filters[i].parameters.empty() || filters[i].parameters[0] == 0) {
          return DamagedChunk("its shuffle has no width");
        }
        stored = Unshuffled(std::move(stored), filters[i].parameters[0]);
        break;
      default:
        return absl::InternalError(
            Cat("filter ", filters[i].id, " cannot be undone here"));
    }
  }
  if (std::ssize(stored) != bytes) {
    return DamagedChunk(Cat("need ", bytes, " bytes behind its filters, found ",
                            std::ssize(stored)));
  }
  return stored;
}

}  // namespace belay::h5
