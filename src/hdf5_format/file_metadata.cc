#include "hdf5_format/file_metadata.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "hdf5_format/encoded_type.h"
#include "hdf5_format/group_links.h"
#include "hdf5_format/metadata_bytes.h"
#include "hdf5_format/object_header.h"

namespace belay::h5 {
namespace {

constexpr int64_t kSuperblockBytes = 48;
// The data begins on a page.
constexpr int64_t kPageBytes = 4096;

// An object of the file: a dataset, or a group with those below it.
struct Node {
  std::string_view name;
  int32_t parent = -1;   // -1 for the root
  int32_t dataset = -1;  // -1 for a group
};

// The objects, each behind its parent; the root is the first.
using Tree = std::vector<Node>;

// What is the same for all datasets of a dtype.
struct TypeTexts {
  std::string type;
  std::string attribute;
};

using NodesByPath = absl::flat_hash_map<std::string_view, int32_t>;

// Adds a dataset and the groups above it. False: HDF5 is to look at it.
bool AddPath(std::string_view path, int32_t dataset, Tree& tree,
             NodesByPath& nodes) {
  int32_t parent = 0;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    const bool is_last = end == path.size();
    if (name.empty() || name == "." || name.size() > kMaxNameBytes) {
      return false;
    }
    const auto [found, is_new] = nodes.try_emplace(
        path.substr(0, end), static_cast<int32_t>(tree.size()));
    if (is_new) tree.push_back({name, parent, is_last ? dataset : -1});
    parent = found->second;
    if (!is_new && (is_last || tree[parent].dataset >= 0)) return false;
    begin = end + 1;
  }
  return true;
}

std::optional<Tree> TreeOf(const std::vector<DatasetSpec>& datasets) {
  Tree tree(1);
  NodesByPath nodes;
  for (const DatasetSpec& spec : datasets) {
    // All members are named, so that none that is added is overlooked here.
    const auto& [path, dtype, string_bytes, shape, chunk, filters, fields] =
        spec;
    if (!filters.empty()) return std::nullopt;
    const auto number = static_cast<int32_t>(&spec - datasets.data());
    if (!AddPath(path, number, tree, nodes)) return std::nullopt;
  }
  std::vector<int64_t> num_links(tree.size());
  for (const Node& node : tree) {
    if (node.parent < 0) continue;
    if (++num_links[node.parent] > kMaxLinks) return std::nullopt;
  }
  return tree;
}

StatusOr<TypeTexts> TextsOf(const ElementType& type) {
  TypeTexts texts;
  BELAY_ASSIGN_OR_RETURN(texts.type, EncodedType(type));
  if (NeedsDTypeAttribute(type.dtype)) {
    BELAY_ASSIGN_OR_RETURN(texts.attribute, EncodedDTypeAttribute(type.dtype));
  }
  return texts;
}

// By dataset; those of the same type share one.
StatusOr<std::vector<const TypeTexts*>> TypesOf(
    const std::vector<DatasetSpec>& datasets,
    std::map<ElementType, TypeTexts>& all) {
  std::vector<const TypeTexts*> types;
  for (const DatasetSpec& spec : datasets) {
    ElementType type = TypeOf(spec);
    if (type.dtype != DType::kString) type.string_bytes = 0;
    const auto [found, is_new] = all.try_emplace(type);
    if (is_new) {
      BELAY_ASSIGN_OR_RETURN(found->second, TextsOf(type));
    }
    types.push_back(&found->second);
  }
  return types;
}

// All objects, from the deepest to the root, so that a link knows its address.
// Returns that of the root group.
int64_t PutObjects(std::string& out, const Tree& tree,
                   const std::vector<DatasetSpec>& datasets,
                   const std::vector<const TypeTexts*>& types,
                   const std::vector<int64_t>& offsets) {
  std::vector<std::vector<Link>> links(tree.size());
  int64_t address = 0;
  for (size_t i = tree.size(); i-- > 0;) {
    const Node& node = tree[i];
    if (node.dataset >= 0) {
      const TypeTexts& type = *types[node.dataset];
      address = kSuperblockBytes + std::ssize(out);
      PutDatasetHeader(out, datasets[node.dataset], type.type, type.attribute,
                       offsets[node.dataset]);
    } else {
      address = PutGroup(out, kSuperblockBytes, links[i]);
      links[i] = {};
    }
    if (node.parent >= 0) links[node.parent].push_back({node.name, address});
  }
  return address;
}

std::string Superblock(int64_t root, int64_t file_bytes) {
  std::string out = "\x89HDF\r\n\x1a\n";
  PutNumber(out, 3, 1);  // version
  PutNumber(out, 8, 1);  // bytes of an address
  PutNumber(out, 8, 1);  // and of a length
  PutNumber(out, 0, 1);  // nobody has it open
  PutAddress(out, 0);
  PutAddress(out, kNoAddress);  // nothing more to say
  PutAddress(out, file_bytes);
  PutAddress(out, root);
  PutChecksum(out, 0);
  return out;
}

// Places the datasets from `begin` on. Returns the end.
int64_t PlaceFrom(int64_t begin, const std::vector<DatasetSpec>& datasets,
                  std::vector<int64_t>& offsets) {
  offsets.clear();
  for (const DatasetSpec& spec : datasets) {
    const int64_t bytes = StoredBytes(spec);
    offsets.push_back(bytes > 0 ? begin : -1);
    begin += bytes;
  }
  return begin;
}

}  // namespace

StatusOr<std::optional<FileMetadata>> EncodeFileMetadata(
    const std::vector<DatasetSpec>& datasets) {
  const std::optional<Tree> tree = TreeOf(datasets);
  if (!tree.has_value()) return std::nullopt;
  std::map<ElementType, TypeTexts> texts;
  BELAY_ASSIGN_OR_RETURN(const std::vector<const TypeTexts*> types,
                         TypesOf(datasets, texts));
  // How long the metadata is does not depend on the places, which depend on
  // how long it is.
  FileMetadata file;
  PlaceFrom(0, datasets, file.offsets);
  std::string objects;
  PutObjects(objects, *tree, datasets, types, file.offsets);
  const int64_t bytes = kSuperblockBytes + std::ssize(objects);
  const int64_t data = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  file.file_bytes = PlaceFrom(data, datasets, file.offsets);
  objects.clear();
  const int64_t root =
      PutObjects(objects, *tree, datasets, types, file.offsets);
  file.bytes = Superblock(root, file.file_bytes) + objects;
  file.bytes.resize(data, '\0');
  return file;
}

}  // namespace belay::h5
