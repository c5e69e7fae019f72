#include "format/file_metadata.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "format/object_header.h"
#include "format/write_links.h"

namespace belay::h5 {
namespace {

constexpr int64_t kSuperblockBytes = 48;
// The data begins on a page.
constexpr int64_t kPageBytes = 4096;

// The kind of a node of the tree; all but groups are leaves.
enum class NodeKind : uint8_t { kGroup, kDataset, kLink };

// A group with what is below it, or one of the objects.
struct Node {
  std::string_view name;
  int32_t parent = -1;  // -1 for the root
  NodeKind kind = NodeKind::kGroup;
  size_t number = 0;  // among the objects of its kind
};

// The nodes, each behind its parent; the root is the first.
using Tree = std::vector<Node>;

// The encoded type and attribute of all datasets of a dtype.
struct TypeTexts {
  std::string type;
  std::string attribute;
};

using NodesByPath = absl::flat_hash_map<std::string_view, int32_t>;

// Adds an object and the groups above it. False: HDF5 is to look at it.
bool AddPath(std::string_view path, NodeKind kind, size_t number, Tree& tree,
             NodesByPath& nodes) {
  int32_t parent = 0;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    const bool is_last = end == path.size();
    if (name.empty() || name == ".") return false;
    const auto [found, is_new] = nodes.try_emplace(
        path.substr(0, end), static_cast<int32_t>(tree.size()));
    if (is_new && is_last) {
      tree.push_back({name, parent, kind, number});
    } else if (is_new) {
      tree.push_back({name, parent});
    } else if (is_last || tree[found->second].kind != NodeKind::kGroup) {
      return false;
    }
    parent = found->second;
    begin = end + 1;
  }
  return true;
}

// The link of a node but for its address.
Link LinkTo(const Node& node, const FileObjects& objects) {
  Link link = {.name = node.name};
  if (node.kind == NodeKind::kLink) {
    const ExternalLink& external = objects.links[node.number];
    link.file = external.file;
    link.target = external.target;
  }
  return link;
}

// Returns whether PutGroup can make all groups.
bool LinksFit(const Tree& tree, const FileObjects& objects) {
  struct Links {
    int64_t count = 0, bytes = 0, longest = 0;
  };
  std::vector<Links> below(tree.size());
  for (const Node& node : tree) {
    if (node.parent < 0) continue;
    Links& links = below[node.parent];
    const int64_t bytes = LinkBytes(LinkTo(node, objects));
    ++links.count;
    links.bytes += bytes;
    links.longest = std::max(links.longest, bytes);
  }
  return std::all_of(below.begin(), below.end(), [](const Links& links) {
    return links.count <= kMaxLinks && links.longest <= kMaxLinkBytes &&
           FitsHeap(links.bytes, links.longest);
  });
}

std::optional<Tree> BuildTree(const FileObjects& objects) {
  Tree tree(1);
  NodesByPath nodes;
  bool is_plain = true;
  const auto add_datasets = [&](bool are_virtual) {
    for (const DatasetSpec& spec : objects.datasets) {
      // All members are named, so that none that is added is overlooked here.
      const auto& [path, dtype, string_bytes, shape, chunk, filters, fields,
                   pieces] = spec;
      if (pieces.empty() == are_virtual) continue;
      is_plain = is_plain && filters.empty() &&
                 AddPath(path, NodeKind::kDataset,
                         &spec - objects.datasets.data(), tree, nodes);
    }
  };
  add_datasets(/*are_virtual=*/false);
  for (const ExternalLink& link : objects.links) {
    is_plain = is_plain && AddPath(link.path, NodeKind::kLink,
                                   &link - objects.links.data(), tree, nodes);
  }
  add_datasets(/*are_virtual=*/true);
  if (!is_plain || !LinksFit(tree, objects)) return std::nullopt;
  return tree;
}

// The texts of types; those of the same type share one.
class TypesByElement {
 public:
  StatusOr<const TypeTexts*> Of(const DatasetSpec& spec) {
    ElementType type = GetElementType(spec);
    if (type.dtype != DType::kString) type.string_bytes = 0;
    const auto [found, is_new] = texts_.try_emplace(std::move(type));
    if (is_new) {
      BELAY_RETURN_IF_ERROR(Fill(found->first, found->second));
    }
    return &found->second;
  }

 private:
  static Status Fill(const ElementType& type, TypeTexts& texts) {
    BELAY_ASSIGN_OR_RETURN(texts.type, EncodedType(type));
    if (!NeedsDTypeAttribute(type.dtype)) return absl::OkStatus();
    BELAY_ASSIGN_OR_RETURN(texts.attribute, EncodedDTypeAttribute(type.dtype));
    return absl::OkStatus();
  }

  std::map<ElementType, TypeTexts> texts_;
};

// All that has to be known to put objects into a file.
struct Contents {
  const FileObjects* objects;
  Tree tree;
  TypesByElement texts = {};
  // By dataset:
  std::vector<const TypeTexts*> types = {};
  std::vector<std::string> mappings = {};  // empty: not virtual
  std::vector<int64_t> offsets = {};
};

Status Describe(Contents& contents) {
  for (const DatasetSpec& spec : contents.objects->datasets) {
    BELAY_ASSIGN_OR_RETURN(const TypeTexts* texts, contents.texts.Of(spec));
    contents.types.push_back(texts);
    std::string& mappings = contents.mappings.emplace_back();
    if (spec.pieces.empty()) continue;
    BELAY_ASSIGN_OR_RETURN(mappings, EncodedMappings(spec));
  }
  return absl::OkStatus();
}

std::vector<GlobalHeapPlace> PutMappings(std::string& out,
                                         const Contents& contents) {
  GlobalHeapWriter heap(out, kSuperblockBytes);
  std::vector<GlobalHeapPlace> places;
  for (const std::string& mappings : contents.mappings) {
    places.push_back(mappings.empty() ? GlobalHeapPlace{} : heap.Add(mappings));
  }
  heap.End();
  return places;
}

// All objects, from the deepest to the root, so that a link knows its address.
// Returns that of the root group.
int64_t PutObjects(std::string& out, const Contents& contents) {
  const std::vector<GlobalHeapPlace> places = PutMappings(out, contents);
  const Tree& tree = contents.tree;
  const FileObjects& objects = *contents.objects;
  std::vector<std::vector<Link>> links(tree.size());
  int64_t root = 0;
  for (size_t i = tree.size(); i-- > 0;) {
    const Node& node = tree[i];
    const size_t number = node.number;
    Link link = LinkTo(node, objects);
    link.address = kSuperblockBytes + std::ssize(out);
    if (node.kind == NodeKind::kDataset) {
      const TypeTexts& type = *contents.types[number];
      PutDatasetHeader(out, objects.datasets[number], type.type, type.attribute,
                       contents.offsets[number], places[number]);
    } else if (node.kind == NodeKind::kGroup) {
      link.address = PutGroup(out, kSuperblockBytes, links[i]);
      links[i] = {};
    }
    if (node.parent >= 0) links[node.parent].push_back(link);
    root = link.address;
  }
  return root;
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
int64_t PlaceFrom(int64_t begin, Contents& contents) {
  contents.offsets.clear();
  for (const DatasetSpec& spec : contents.objects->datasets) {
    const int64_t bytes = spec.pieces.empty() ? StoredBytes(spec) : 0;
    contents.offsets.push_back(bytes > 0 ? begin : -1);
    begin += bytes;
  }
  return begin;
}

}  // namespace

StatusOr<std::optional<FileMetadata>> EncodeFileMetadata(
    const FileObjects& objects) {
  std::optional<Tree> tree = BuildTree(objects);
  if (!tree.has_value()) return std::nullopt;
  Contents contents = {.objects = &objects, .tree = *std::move(tree)};
  BELAY_RETURN_IF_ERROR(Describe(contents));
  // The places depend on the length of the metadata, which does not depend on
  // the places.
  PlaceFrom(0, contents);
  std::string encoded;
  PutObjects(encoded, contents);
  const int64_t bytes = kSuperblockBytes + std::ssize(encoded);
  const int64_t data = CeilDivide(bytes, kPageBytes) * kPageBytes;
  FileMetadata file;
  file.file_bytes = PlaceFrom(data, contents);
  encoded.clear();
  const int64_t root = PutObjects(encoded, contents);
  encoded.insert(0, Superblock(root, file.file_bytes));
  encoded.resize(data, '\0');
  file.bytes = std::move(encoded);
  file.offsets = std::move(contents.offsets);
  return file;
}

}  // namespace belay::h5
