#include "hdf5_format/read/name_index.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "base/status_macros.h"
#include "base/text.h"
#include "hdf5_format/read/metadata_reader.h"
#include "hdf5_format/read/read_header.h"

namespace belay::h5 {
namespace {

constexpr int kNameTree = 5;  // by the names of links
constexpr int64_t kNameRecordBytes = 4 + kHeapIdBytes;
constexpr int64_t kNodePrefixBytes = 4 + 1 + 1;
constexpr int64_t kNodeChecksumBytes = 4;
// More than 2^64 links have.
constexpr int kMaxTreeDepth = 16;
// Names of one checksum are rare, and lie beside each other.
constexpr int kMaxNodesOfHash = 1024;

// What the header of a tree says.
struct TreeShape {
  int64_t node_bytes = 0;
  int depth = 0;
  int64_t root = 0;
  int64_t root_records = 0;
  int count_width = 0;  // of the number of records of a child
  // By depth: the most records of a node, and the bytes that the number of
  // records below and in it takes.
  std::vector<int64_t> most_records;
  std::vector<int> total_width;
};

struct NodePlace {
  int64_t address;
  int64_t records;
  int depth;
};

// The bytes that a number of at most so much takes.
int WidthFor(uint64_t most) {
  return (std::bit_width(std::max<uint64_t>(most, 1)) - 1) / 8 + 1;
}

// How many records nodes have follows from their size and the depth.
bool SizeNodes(TreeShape& tree) {
  const int64_t room = tree.node_bytes - kNodePrefixBytes - kNodeChecksumBytes;
  double all = 0;  // far more than any file has may be claimed
  for (int depth = 0; depth <= tree.depth; ++depth) {
    int64_t pointer = 0;
    if (depth > 0) {
      pointer = 8 + tree.count_width + tree.total_width[depth - 1];
    }
    const int64_t most = (room - pointer) / (kNameRecordBytes + pointer);
    if (most < 1) return false;
    if (depth == 0) tree.count_width = WidthFor(static_cast<uint64_t>(most));
    all = all * static_cast<double>(most + 1) + static_cast<double>(most);
    if (all > 1e18) return false;
    tree.most_records.push_back(most);
    tree.total_width.push_back(
        depth == 0 ? 0 : WidthFor(static_cast<uint64_t>(all)));
  }
  return true;
}

StatusOr<TreeShape> ReadTreeHeader(BoundedFile& file, int64_t address) {
  constexpr int64_t kBytes = 38;
  BELAY_ASSIGN_OR_RETURN(
      const std::string_view header,
      ReadChecked(file, address, kBytes, "BTHD", "the index of a group"));
  MetadataReader in(header.substr(4));
  const uint64_t version = in.Number(1);
  const uint64_t kind = in.Number(1);
  TreeShape tree;
  tree.node_bytes = static_cast<int64_t>(in.Number(4));
  const uint64_t record_bytes = in.Number(2);
  tree.depth = static_cast<int>(in.Number(2));
  in.Number(2);  // when nodes are split and merged
  tree.root = in.Address();
  tree.root_records = static_cast<int64_t>(in.Number(2));
  if (version != 0 || kind != kNameTree || record_bytes != kNameRecordBytes) {
    return absl::UnimplementedError(
        Cat("read \"", file.name(), "\": a group has an index of another kind ",
            "than belay writes (kind ", kind, ")"));
  }
  if (tree.depth > kMaxTreeDepth || tree.node_bytes > file.size() ||
      !SizeNodes(tree)) {
    return file.Damaged(address, "the index of a group is damaged");
  }
  return tree;
}

// A node without what follows its last record or child.
StatusOr<std::string_view> ReadNode(BoundedFile& file, const TreeShape& tree,
                                    const NodePlace& node) {
  if (node.records < 0 || node.records > tree.most_records[node.depth]) {
    return file.Damaged(node.address, "a node has too many records");
  }
  int64_t bytes = kNodePrefixBytes + node.records * kNameRecordBytes;
  if (node.depth > 0) {
    bytes += (node.records + 1) *
             (8 + tree.count_width + tree.total_width[node.depth - 1]);
  }
  BELAY_ASSIGN_OR_RETURN(
      const std::string_view read,
      ReadChecked(file, node.address, bytes + kNodeChecksumBytes,
                  node.depth > 0 ? "BTIN" : "BTLF", "a node of an index"));
  if (read[4] != 0 || read[5] != kNameTree) {
    return file.Damaged(node.address, "a node is one of another index");
  }
  return read;
}

uint32_t HashAt(std::string_view node, int64_t record) {
  return static_cast<uint32_t>(
      MetadataReader(node.substr(kNodePrefixBytes + record * kNameRecordBytes))
          .Number(4));
}

// The records with a hash that is not less; or greater.
int64_t LowerBound(std::string_view node, int64_t records, uint64_t hash) {
  int64_t begin = 0;
  while (begin < records) {
    const int64_t middle = begin + (records - begin) / 2;
    if (HashAt(node, middle) < hash) {
      begin = middle + 1;
    } else {
      records = middle;
    }
  }
  return begin;
}

NodePlace ChildAt(const TreeShape& tree, std::string_view bytes,
                  const NodePlace& node, int64_t child) {
  const int total = tree.total_width[node.depth - 1];
  const int64_t pointer = 8 + tree.count_width + total;
  MetadataReader in(bytes.substr(
      kNodePrefixBytes + node.records * kNameRecordBytes + child * pointer));
  const int64_t address = in.Address();
  const auto records = static_cast<int64_t>(in.Number(tree.count_width));
  return {address, records, node.depth - 1};
}

}  // namespace

StatusOr<std::vector<std::string>> FindByHash(BoundedFile& file,
                                              int64_t address, uint32_t hash) {
  BELAY_ASSIGN_OR_RETURN(const TreeShape tree, ReadTreeHeader(file, address));
  std::vector<std::string> found;
  std::vector<NodePlace> nodes;
  if (tree.root_records > 0) {
    nodes.push_back({tree.root, tree.root_records, tree.depth});
  }
  // Each node is below the one that names it, but several may name one.
  for (int visited = 0; !nodes.empty(); ++visited) {
    const NodePlace node = nodes.back();
    if (visited == kMaxNodesOfHash) {
      return file.Damaged(node.address, "too many names have one checksum");
    }
    nodes.pop_back();
    BELAY_ASSIGN_OR_RETURN(const std::string_view bytes,
                           ReadNode(file, tree, node));
    const int64_t begin = LowerBound(bytes, node.records, hash);
    const int64_t end = LowerBound(bytes, node.records, uint64_t{hash} + 1);
    BELAY_RETURN_IF_ERROR(
        file.Charge(sizeof(std::string), "the index of a group", end - begin));
    for (int64_t i = begin; i < end; ++i) {
      found.emplace_back(bytes.substr(
          kNodePrefixBytes + i * kNameRecordBytes + 4, kHeapIdBytes));
    }
    if (node.depth == 0) continue;
    for (int64_t child = begin; child <= end; ++child) {
      nodes.push_back(ChildAt(tree, bytes, node, child));
    }
  }
  return found;
}

}  // namespace belay::h5
