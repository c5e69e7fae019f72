#include "format/chunked_dataset.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/integers.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/bounded_file.h"
#include "format/file_metadata.h"
#include "format/file_reader.h"

namespace belay::h5 {
namespace {

// A table entry has an address, a size, and a mask of skipped filters.
constexpr int kAddressBytes = 8, kMaskBytes = 4;
constexpr int64_t kMaxHdf5ChunkBytes = int64_t{1} << 32;  // HDF5's limit plus 1

// The header of a chunk table.
struct ChunkTable {
  int64_t address = 0;
  int entry_bytes = 0;
  int64_t entries_of_page = 0;
  int64_t num_entries = 0;
  int64_t block = 0;
};

Status Damaged(std::string_view what) {
  return absl::DataLossError(
      Cat("the chunks of a dataset are damaged: ", what));
}

// Returns a chunk's number in row-major order. Sets `count` to the number of
// chunks.
StatusOr<int64_t> FindNumber(const ChunkedDataset& dataset, const Shape& corner,
                             int64_t& count) {
  int64_t number = 0;
  count = 1;
  for (size_t axis = 0; axis < dataset.shape.size(); ++axis) {
    const int64_t along = CeilDivide(dataset.shape[axis], dataset.chunk[axis]);
    if (along > 0 && count > std::numeric_limits<int64_t>::max() / along) {
      return Damaged("there are too many");
    }
    number = number * along + corner[axis] / dataset.chunk[axis];
    count *= along;
  }
  return number;
}

StatusOr<ChunkTable> ReadTable(BoundedFile& file, int64_t address) {
  constexpr int64_t kBytes = 28;
  BELAY_ASSIGN_OR_RETURN(
      const std::string_view header,
      ReadChecked(file, address, kBytes, "FAHD", "the table of chunks"));
  MetadataReader in(header.substr(4));
  const uint64_t version = in.Number(1);
  in.Number(1);  // whether the chunks have passed filters
  ChunkTable table{.address = address};
  table.entry_bytes = static_cast<int>(in.Number(1));
  const uint64_t page_bits = in.Number(1);
  table.num_entries = in.Address();
  table.block = in.Address();
  if (version != 0 || page_bits > 32 || table.num_entries < 0) {
    return file.Damaged(address, "the table of chunks is damaged");
  }
  table.entries_of_page = int64_t{1} << page_bits;
  return table;
}

// Returns the bytes of an entry, which the file owns. Returns none if the
// entry's page was never written.
StatusOr<std::string_view> ReadEntry(BoundedFile& file, const ChunkTable& table,
                                     int64_t number) {
  constexpr int64_t kHead = 4 + 1 + 1 + 8;
  const int64_t most = file.size() / std::max(table.entry_bytes, 1);
  if (table.num_entries > most) {
    return file.Damaged(table.address, "the table of chunks is too long");
  }
  if (table.num_entries <= table.entries_of_page) {
    BELAY_ASSIGN_OR_RETURN(
        const std::string_view block,
        ReadChecked(
            file, table.block,
            kHead + table.num_entries * table.entry_bytes + kChecksumBytes,
            "FADB", "a table of chunks"));
    return block.substr(kHead + number * table.entry_bytes, table.entry_bytes);
  }
  const int64_t num_pages =
      CeilDivide(table.num_entries, table.entries_of_page);
  const int64_t head = kHead + CeilDivide(num_pages, 8) + kChecksumBytes;
  BELAY_ASSIGN_OR_RETURN(
      const std::string_view block,
      ReadChecked(file, table.block, head, "FADB", "a table of chunks"));
  const int64_t page = number / table.entries_of_page;
  const auto written = static_cast<uint8_t>(block[kHead + page / 8]);
  if ((written & (0x80 >> page % 8)) == 0) return std::string_view();
  const int64_t page_bytes =
      table.entries_of_page * table.entry_bytes + kChecksumBytes;
  const int64_t entries = std::min(
      table.entries_of_page, table.num_entries - page * table.entries_of_page);
  BELAY_ASSIGN_OR_RETURN(
      const std::string_view bytes,
      ReadChecked(file, table.block + head + page * page_bytes,
                  entries * table.entry_bytes + kChecksumBytes, "",
                  "a page of a table of chunks"));
  return bytes.substr(number % table.entries_of_page * table.entry_bytes,
                      table.entry_bytes);
}

// Returns the table of a dataset that has `count` chunks.
StatusOr<ChunkTable> FindTable(BoundedFile& file, const ChunkedDataset& dataset,
                               int64_t count) {
  BELAY_ASSIGN_OR_RETURN(const ChunkTable table,
                         ReadTable(file, dataset.address));
  const bool is_sound =
      dataset.filters.empty()
          ? table.entry_bytes == kAddressBytes
          : table.entry_bytes > kAddressBytes + kMaskBytes &&
                table.entry_bytes <= kAddressBytes + 8 + kMaskBytes;
  if (!is_sound || table.num_entries != count) {
    return file.Damaged(table.address,
                        "the table of chunks is not that of its dataset");
  }
  return table;
}

StatusOr<StoredChunk> FindInTable(BoundedFile& file,
                                  const ChunkedDataset& dataset,
                                  const ChunkTable& table, int64_t number) {
  BELAY_ASSIGN_OR_RETURN(const std::string_view entry,
                         ReadEntry(file, table, number));
  if (entry.empty()) return StoredChunk();
  MetadataReader in(entry);
  StoredChunk chunk{.address = in.Address(), .bytes = ChunkBytes(dataset)};
  if (dataset.filters.empty()) return chunk;
  chunk.bytes = static_cast<int64_t>(
      in.Number(table.entry_bytes - kAddressBytes - kMaskBytes));
  chunk.left_out = static_cast<uint32_t>(in.Number(kMaskBytes));
  return chunk;
}

// Returns the only chunk, or chunk `number` of contiguous chunks.
StatusOr<StoredChunk> FindWithoutTable(const BoundedFile& file,
                                       const ChunkedDataset& dataset,
                                       int64_t number, int64_t count) {
  if (dataset.index == ChunkIndex::kSingle) {
    if (count != 1) return Damaged("there is more than one");
    return StoredChunk{.address = dataset.address,
                       .bytes = dataset.filters.empty() ? ChunkBytes(dataset)
                                                        : dataset.stored_bytes,
                       .left_out = dataset.left_out};
  }
  if (dataset.index != ChunkIndex::kImplicit) return Damaged("their index");
  if (!dataset.filters.empty()) return Damaged("their filters");
  if (dataset.address < 0 ||
      number > (file.size() - dataset.address) / ChunkBytes(dataset)) {
    return Damaged("they do not lie in the file");
  }
  return StoredChunk{.address = dataset.address + number * ChunkBytes(dataset),
                     .bytes = ChunkBytes(dataset)};
}

StatusOr<StoredChunk> FindChunk(BoundedFile& file,
                                const ChunkedDataset& dataset,
                                const Shape& corner) {
  int64_t count = 0;
  BELAY_ASSIGN_OR_RETURN(const int64_t number,
                         FindNumber(dataset, corner, count));
  if (dataset.index != ChunkIndex::kFixedArray) {
    return FindWithoutTable(file, dataset, number, count);
  }
  BELAY_ASSIGN_OR_RETURN(const ChunkTable table,
                         FindTable(file, dataset, count));
  return FindInTable(file, dataset, table, number);
}

// Checks a chunk's place before memory is allocated for it.
Status CheckPlace(const BoundedFile& file, const StoredChunk& chunk) {
  if (chunk.address == kNoAddress) return Damaged("one was never written");
  if (chunk.bytes < 0 || chunk.bytes > file.size()) {
    return Damaged("one does not lie in the file");
  }
  return file.CheckRange(chunk.address, chunk.bytes, "a chunk");
}

bool ShufflesElements(const ChunkedDataset& dataset) {
  constexpr int kShuffle = 2;
  const std::vector<uint32_t> width = {
      static_cast<uint32_t>(dataset.element_bytes)};
  return std::ranges::all_of(dataset.filters, [&](const Filter& filter) {
    return filter.id != kShuffle || filter.parameters == width;
  });
}

}  // namespace

Shape FindChunkCorner(const ChunkedDataset& dataset, int64_t number) {
  Shape corner(dataset.shape.size());
  for (size_t axis = corner.size(); axis-- > 0;) {
    const int64_t along = CeilDivide(dataset.shape[axis], dataset.chunk[axis]);
    corner[axis] = number % along * dataset.chunk[axis];
    number /= along;
  }
  return corner;
}

int64_t ChunkBytes(const ChunkedDataset& dataset) {
  return NumElements(dataset.chunk) * dataset.element_bytes;
}

Status ParseChunks(std::string_view message, ChunkedDataset& dataset) {
  enum Flags { kEdgesUnfiltered = 0x01, kSingleHasFilters = 0x02 };
  MetadataReader in(message);
  const uint64_t version = in.Number(1);
  in.Number(1);  // layout class: chunked
  const auto flags = static_cast<int>(in.Number(1));
  const uint64_t axes = in.Number(1);
  const auto width = static_cast<int>(in.Number(1));
  if (version != 4) {
    return absl::UnimplementedError("chunks in a layout of an older version");
  }
  if ((flags & kEdgesUnfiltered) != 0) {
    return absl::UnimplementedError("chunks without filters at the edges");
  }
  if (axes != dataset.shape.size() + 1 || axes < 2 || width < 1 || width > 8) {
    return Damaged("their shape");
  }
  int64_t bytes = 1;
  for (uint64_t axis = 0; axis < axes; ++axis) {
    const uint64_t length = in.Number(width);
    if (length < 1 || length >= uint64_t{kMaxHdf5ChunkBytes} ||
        bytes > kMaxHdf5ChunkBytes / static_cast<int64_t>(length)) {
      return Damaged("their shape");
    }
    bytes *= static_cast<int64_t>(length);
    if (axis + 1 < axes) {
      // HDF5 makes no chunk longer than the array.
      if (static_cast<int64_t>(length) >
          std::max<int64_t>(dataset.shape[axis], 1)) {
        return Damaged("their shape");
      }
      dataset.chunk.push_back(static_cast<int64_t>(length));
    } else if (static_cast<int64_t>(length) != dataset.element_bytes) {
      return Damaged("the size of their elements");
    }
  }
  const auto index = static_cast<int>(in.Number(1));
  dataset.index = static_cast<ChunkIndex>(index);
  switch (dataset.index) {
    case ChunkIndex::kSingle:
      if ((flags & kSingleHasFilters) == 0) break;
      dataset.stored_bytes = in.Address();
      dataset.left_out = static_cast<uint32_t>(in.Number(4));
      break;
    case ChunkIndex::kImplicit:
      break;
    case ChunkIndex::kFixedArray:
      in.Number(1);  // repeated in the table
      break;
    default:
      return absl::UnimplementedError(
          Cat("chunks with an index of kind ", index));
  }
  dataset.address = in.Address();
  return in.ok() ? absl::OkStatus() : Damaged("their index");
}

StatusOr<std::string> ReadChunk(BoundedFile& file,
                                const ChunkedDataset& dataset,
                                const Shape& corner) {
  if (!CanUndo(dataset.filters)) {
    return absl::UnimplementedError("filters that belay does not undo");
  }
  // Other widths are slow to undo.
  if (!ShufflesElements(dataset)) return Damaged("the width of their shuffle");
  BELAY_ASSIGN_OR_RETURN(const StoredChunk chunk,
                         FindChunk(file, dataset, corner));
  BELAY_RETURN_IF_ERROR(CheckPlace(file, chunk));
  const int64_t most = MostFilteredBytes(dataset.filters, ChunkBytes(dataset));
  if (chunk.bytes > most) {
    return Damaged(Cat("one is longer than its filters make it (need at most ",
                       most, " bytes, found ", chunk.bytes, ")"));
  }
  std::string stored(static_cast<size_t>(chunk.bytes), '\0');
  BELAY_RETURN_IF_ERROR(
      file.ReadTo(chunk.address, stored.data(), chunk.bytes, "a chunk"));
  return UndoFilters(std::move(stored), dataset.filters, chunk.left_out,
                     ChunkBytes(dataset));
}

Status ForEachStoredChunk(BoundedFile& file, const ChunkedDataset& dataset,
                          absl::FunctionRef<Status(const StoredChunk&)> visit) {
  const Shape first(dataset.shape.size(), 0);
  int64_t count = 0;
  BELAY_RETURN_IF_ERROR(FindNumber(dataset, first, count).status());
  const bool has_table = dataset.index == ChunkIndex::kFixedArray;
  ChunkTable table;
  if (has_table) {
    BELAY_ASSIGN_OR_RETURN(table, FindTable(file, dataset, count));
  }
  for (int64_t number = 0; number < count; ++number) {
    BELAY_ASSIGN_OR_RETURN(
        const StoredChunk chunk,
        has_table ? FindInTable(file, dataset, table, number)
                  : FindWithoutTable(file, dataset, number, count));
    BELAY_RETURN_IF_ERROR(CheckPlace(file, chunk));
    BELAY_RETURN_IF_ERROR(visit(chunk));
  }
  return absl::OkStatus();
}

// --- Filters ---

namespace {

enum FilterId { kDeflate = 1, kShuffle = 2, kFletcher32 = 3 };

constexpr int64_t kFletcherBytes = 4;
// zlib expands a byte to at most this many.
constexpr int64_t kMaxInflated = 1040;

Status DamagedChunk(std::string_view what) {
  return absl::DataLossError(Cat("a chunk is damaged: ", what));
}

// Sums as HDF5 does: 16 bits at a time, most significant byte first.
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

// Inflates to at most `most` bytes.
StatusOr<std::string> Inflate(const std::string& stored, int64_t most) {
  // Allocates only what these bytes can expand to.
  most = std::min(most, kMaxInflated * (std::ssize(stored) + 1));
  std::string out(static_cast<size_t>(most), '\0');
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) {
    return absl::ResourceExhaustedError("no memory to inflate a chunk");
  }
  size_t taken = 0;
  size_t made = 0;
  int result = Z_OK;
  while (result == Z_OK) {
    constexpr size_t kMaxOfCall = std::numeric_limits<uInt>::max();
    const size_t in = std::min(stored.size() - taken, kMaxOfCall);
    const size_t room = std::min(out.size() - made, kMaxOfCall);
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

// Undoes a shuffle, which groups bytes of equal significance. Bytes after the
// last whole element follow unchanged.
std::string Unshuffled(std::string stored, size_t width) {
  const size_t count = stored.size() / width;
  if (count <= 1) return stored;  // whatever width the file claims
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
  constexpr uint64_t kMaxFilters = 32;  // HDF5's limit
  constexpr uint64_t kMaxParameters = 64;
  constexpr int kFirstNamed = 256;
  MetadataReader in(message);
  const uint64_t version = in.Number(1);
  const uint64_t count = in.Number(1);
  if (version != 2 || count == 0 || count > kMaxFilters) {
    return absl::DataLossError("the filters of a dataset are damaged");
  }
  std::vector<Filter> filters;
  for (uint64_t i = 0; i < count; ++i) {
    Filter filter{.id = static_cast<int>(in.Number(2))};
    const uint64_t name_bytes = filter.id < kFirstNamed ? 0 : in.Number(2);
    in.Number(2);  // whether the filter is optional
    const uint64_t parameters = in.Number(2);
    in.Bytes(name_bytes);
    if (parameters > kMaxParameters) {
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
  // A second shuffle only moves the same bytes again.
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
    // Incompressible bytes grow a little.
    if (filter.id == kDeflate) bytes += bytes / 512 + 64;
    if (filter.id == kFletcher32) bytes += kFletcherBytes;
  }
  return bytes;
}

std::optional<int64_t> MostUnfilteredBytes(std::span<const Filter> filters,
                                           uint32_t left_out, int64_t stored) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  int64_t bytes = stored;
  for (size_t i = 0; i < filters.size(); ++i) {
    if (i < 32 && (left_out >> i & 1) != 0) continue;
    const int id = filters[i].id;
    if (id == kDeflate) {
      bytes =
          bytes < kMax / kMaxInflated - 1 ? kMaxInflated * (bytes + 1) : kMax;
    } else if (id != kShuffle && id != kFletcher32) {
      return std::nullopt;
    }
  }
  return bytes;
}

StatusOr<std::string> UndoFilters(std::string stored,
                                  const std::vector<Filter>& filters,
                                  uint32_t left_out, int64_t bytes) {
  const int64_t can_hold = kMaxInflated * (std::ssize(stored) + 1);
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
        // HDF5 sets the width to the element size when it creates a dataset.
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
