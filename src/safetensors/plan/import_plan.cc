#include "safetensors/plan/import_plan.h"

#include <utility>

#include "safetensors/plan/shard_codec.h"
#include "safetensors/plan/shares.h"

namespace belay::safetensors {
namespace {

void AddShard(const FileTensor& tensor, const Box& box, const FilePlace& place,
              RankImport& part) {
  part.shards.push_back({.key = tensor.name,
                         .dtype = tensor.dtype,
                         .global_shape = tensor.shape,
                         .box = box});
  part.places.push_back(place);
}

}  // namespace

std::vector<RankImport> PlanImport(std::vector<SourceTensors> files,
                                   int num_ranks) {
  std::vector<FileTensor> tensors;
  std::vector<FilePlace> places;
  for (size_t i = 0; i < files.size(); ++i) {
    for (FileTensor& tensor : files[i].tensors) {
      places.push_back({.file = static_cast<int32_t>(i),
                        .offset = files[i].data_offset + tensor.begin});
      tensors.push_back(std::move(tensor));
    }
    std::exchange(files[i].tensors, {});  // with its memory
  }
  std::vector<RankImport> ranks(num_ranks);
  const std::vector<std::vector<TensorRange>> shares =
      EvenShares(tensors, num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (const TensorRange& range : shares[rank]) {
      const FileTensor& tensor = tensors[range.tensor];
      const int64_t size = DTypeSize(tensor.dtype);
      FilePlace place = places[range.tensor];
      place.offset += range.begin * size;
      if (range.begin == range.end) {  // so that somebody lists it
        AddShard(tensor, WholeBox(tensor.shape), place, ranks[rank]);
      }
      ForEachBoxOfRange(tensor.shape, range.begin, range.end,
                        [&](const Box& box) {
                          AddShard(tensor, box, place, ranks[rank]);
                          place.offset += NumElements(box.shape) * size;
                        });
    }
  }
  return ranks;
}

std::string EncodeRankImport(const RankImport& part) {
  WireWriter out;
  out.Put<uint64_t>(part.places.size());
  for (const FilePlace& place : part.places) out.Put(place);
  PutShards(out, part.shards);
  return out.Take();
}

RankImport DecodeRankImport(std::string_view bytes) {
  WireReader in(bytes);
  RankImport part;
  part.places = in.GetAll<FilePlace>([&] { return in.Get<FilePlace>(); });
  part.shards = GetShards(in);
  return part;
}

}  // namespace belay::safetensors
