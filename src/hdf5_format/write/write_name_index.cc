#include "hdf5_format/write/write_name_index.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "base/ceil_divide.h"
#include "hdf5_format/metadata_bytes.h"
#include "hdf5_format/read/name_index.h"

namespace belay::h5 {
namespace {

constexpr int kTreeOfNames = 5;
constexpr int kRecordBytes = 4 + kHeapIdBytes;
constexpr int64_t kNodeOverhead = 4 + 1 + 1 + 4;
constexpr int64_t kNodeStep = 512;
// Of nodes that are not the only one: a node of so many bytes has this many
// records or children at most.
constexpr int64_t kNodeBytes = 65536;
constexpr int64_t kLargeNodeBytes = 524288;
constexpr int kCountBytes = 2;
constexpr int kPointerBytes = 8 + kCountBytes;

using Records = std::span<const NameRecord>;

constexpr int64_t MostOfLeaf(int64_t node_bytes) {
  return (node_bytes - kNodeOverhead) / kRecordBytes;
}
constexpr int64_t MostOfRoot(int64_t node_bytes) {
  return (node_bytes - kNodeOverhead - kPointerBytes) /
         (kRecordBytes + kPointerBytes);
}
// The links below a root whose leaves are all full.
constexpr int64_t MostBelow(int64_t node_bytes) {
  const int64_t root = MostOfRoot(node_bytes);
  return root + (root + 1) * MostOfLeaf(node_bytes);
}

static_assert(kMaxLinksOfLeaf + kNodeStep / kRecordBytes < 65536);
static_assert(MostOfLeaf(kNodeBytes) > 255, "kCountBytes");
static_assert(MostOfLeaf(kLargeNodeBytes) < 65536, "kCountBytes");
static_assert(MostBelow(kLargeNodeBytes) > kMaxLinks);

struct Root {
  int64_t address;
  int64_t records;
  int depth;
  int64_t node_bytes;
};

void PutRecord(std::string& out, const NameRecord& record) {
  PutNumber(out, record.hash, 4);
  out += EncodedHeapId(record.place);
}

void PutHeader(std::string& out, const Root& root, int64_t num_records) {
  const size_t begin = out.size();
  out += "BTHD";
  PutNumber(out, 0, 1);  // version
  PutNumber(out, kTreeOfNames, 1);
  PutNumber(out, root.node_bytes, 4);
  PutNumber(out, kRecordBytes, 2);
  PutNumber(out, root.depth, 2);
  PutNumber(out, 100, 1);  // per cent, where a node is split
  PutNumber(out, 40, 1);   // and merged
  PutAddress(out, root.address);
  PutNumber(out, root.records, 2);
  PutAddress(out, num_records);
  PutChecksum(out, begin);
}

// Appends the beginning of a node.
void BeginNode(std::string& out, std::string_view signature) {
  out += signature;
  PutNumber(out, 0, 1);  // version
  PutNumber(out, kTreeOfNames, 1);
}

void EndNode(std::string& out, size_t begin, int64_t node_bytes) {
  PutChecksum(out, begin);
  out.resize(begin + node_bytes, '\0');
}

int64_t PutLeaf(std::string& out, int64_t start, int64_t node_bytes,
                Records records) {
  const size_t begin = out.size();
  BeginNode(out, "BTLF");
  for (const NameRecord& record : records) PutRecord(out, record);
  EndNode(out, begin, node_bytes);
  return start + static_cast<int64_t>(begin);
}

Root PutOneLeaf(std::string& out, int64_t start, Records records) {
  const int64_t bytes = kNodeOverhead + kRecordBytes * std::ssize(records);
  const int64_t node_bytes = CeilDivide(bytes, kNodeStep) * kNodeStep;
  return {.address = PutLeaf(out, start, node_bytes, records),
          .records = std::ssize(records),
          .depth = 0,
          .node_bytes = node_bytes};
}

// Leaves of about the same size, with a record of the root between each two.
Root PutLeaves(std::string& out, int64_t start, Records records) {
  const int64_t count = std::ssize(records);
  const int64_t node_bytes =
      count <= MostBelow(kNodeBytes) ? kNodeBytes : kLargeNodeBytes;
  const int64_t num_leaves = CeilDivide(count + 1, MostOfLeaf(node_bytes) + 1);
  std::string between;
  std::string pointers;
  int64_t begin = 0;
  for (int64_t leaf = 0; leaf < num_leaves; ++leaf) {
    // Of the records and the end, which follows the last leaf.
    const int64_t end = (count + 1) * (leaf + 1) / num_leaves - 1;
    PutAddress(pointers, PutLeaf(out, start, node_bytes,
                                 records.subspan(begin, end - begin)));
    PutNumber(pointers, end - begin, kCountBytes);
    if (end < count) PutRecord(between, records[end]);
    begin = end + 1;
  }
  const size_t root = out.size();
  BeginNode(out, "BTIN");
  out += between + pointers;
  EndNode(out, root, node_bytes);
  return {.address = start + static_cast<int64_t>(root),
          .records = num_leaves - 1,
          .depth = 1,
          .node_bytes = node_bytes};
}

}  // namespace

int64_t PutNameIndex(std::string& out, int64_t start,
                     std::vector<NameRecord> records) {
  std::sort(records.begin(), records.end(),
            [](const NameRecord& a, const NameRecord& b) {
              return std::tie(a.hash, a.name) < std::tie(b.hash, b.name);
            });
  const int64_t count = std::ssize(records);
  const Root root = count <= kMaxLinksOfLeaf ? PutOneLeaf(out, start, records)
                                             : PutLeaves(out, start, records);
  const int64_t header = start + std::ssize(out);
  PutHeader(out, root, count);
  return header;
}

}  // namespace belay::h5
