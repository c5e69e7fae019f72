#include "format/chunked_dataset.h"

#include <algorithm>
#include <limits>

#include "core/integers.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/chunk_filters.h"
#include "format/object_header.h"
#include "format/read_header.h"

namespace belay::h5 {
namespace {

// An entry of a table has an address, a size, and a mask of unused filters.
constexpr int kAddressBytes = 8, kMaskBytes = 4;
constexpr int64_t kMostChunkBytes = int64_t{1} << 32;  // of HDF5, less one

// The header of a table of chunks.
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

// Chunks are numbered in row-major order.
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

// Returns the bytes of an entry; the file owns them. Nothing: its page was
// never written.
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

// The table of a dataset that has `count` chunks.
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

// The only chunk, or the one of this number among those that follow each other.
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

// Checks where a chunk lies, before memory is taken for it.
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
  in.Number(1);  // it is chunked
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
    if (length < 1 || length >= uint64_t{kMostChunkBytes} ||
        bytes > kMostChunkBytes / static_cast<int64_t>(length)) {
      return Damaged("their shape");
    }
    bytes *= static_cast<int64_t>(length);
    if (axis + 1 < axes) {
      // HDF5 makes none that is longer than the array.
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
      in.Number(1);  // the table says it again
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
  // Any other width takes long to undo.
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

}  // namespace belay::h5
