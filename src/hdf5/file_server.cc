#include "hdf5/file_server.h"

#include <cstdint>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/values/save_args.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/element_type.h"
#include "hdf5/dataset.h"
#include "hdf5/dataset_listing.h"
#include "hdf5/file.h"
#include "hdf5/handle.h"
#include "hdf5/native_read.h"
#include "hdf5/types.h"

namespace belay::h5 {
namespace {

void PutArray(const NativeArray& array, WireWriter& out) {
  out.Put(array.dtype);
  out.PutShape(array.shape);
  out.PutText(array.problem);
  out.Put(array.bytes);
  out.Put(array.stored_bytes);
}

std::vector<Filter> GetFilters(WireReader& in) {
  return in.GetAll<Filter>([&] { return Filter{.id = in.Get<int32_t>()}; });
}

}  // namespace

StatusOr<std::string> FileServer::Answer(std::string_view request,
                                         std::span<std::byte> shared) {
  StatusOr<std::string> answer = Find(WireReader(request), shared);
  const Status& status = answer.status();
  const bool is_damage =
      is_ours_ && (absl::IsNotFound(status) ||
                   (absl::IsInternal(status) && !IsOfSystem(status)));
  if (!is_damage) return answer;
  return absl::DataLossError(Cat("damaged: ", std::string(status.message())));
}

StatusOr<std::string> FileServer::Open(WireReader& in) {
  const std::string path(in.GetText());
  is_ours_ = in.Get<WrittenBy>() == WrittenBy::kBelay;
  BELAY_ASSIGN_OR_RETURN(
      file_,
      OpenFileReadOnly(path, is_ours_ ? Links::kRefused : Links::kFollowed));
  return std::string();
}

StatusOr<std::string> FileServer::Find(WireReader in,
                                       std::span<std::byte> shared) {
  const auto kind = in.Get<FileRequest>();
  if (kind == FileRequest::kOpen) return Open(in);
  if (kind == FileRequest::kList) return List();
  if (kind == FileRequest::kCanRead) {
    BELAY_RETURN_IF_ERROR(CheckCanRead(GetFilters(in)));
    return std::string();
  }
  const std::string path(in.GetText());
  if (kind == FileRequest::kReadStored) return ReadStored(path, in, shared);
  BELAY_ASSIGN_OR_RETURN(const Handle dataset,
                         OpenToRead(file_, path, OtherFiles::kFollowed));
  switch (kind) {
    case FileRequest::kDescribe:
      return Describe(dataset, in.Get<bool>());
    case FileRequest::kReadText:
      return ReadNativeText(dataset);
    default:
      break;
  }
  const auto dtype = in.Get<DType>();
  const Box box = in.GetBox();
  BELAY_RETURN_IF_ERROR(ReadNative(dataset, dtype, box, shared.data()));
  return std::string();
}

StatusOr<std::string> FileServer::List() const {
  BELAY_ASSIGN_OR_RETURN(const std::vector<ListedDataset> listed,
                         ListDatasets(file_));
  WireWriter out;
  out.Put<uint64_t>(listed.size());
  for (const ListedDataset& dataset : listed) {
    out.PutText(dataset.path);
    PutArray(dataset.array, out);
  }
  return out.Take();
}

StatusOr<std::string> FileServer::Describe(const Handle& dataset,
                                           bool checks_sources) const {
  BELAY_ASSIGN_OR_RETURN(const NativeArray array, DescribeDataset(dataset));
  if (checks_sources) {
    BELAY_RETURN_IF_ERROR(CheckSources(dataset, file_.name()));
  }
  WireWriter out;
  PutArray(array, out);
  return out.Take();
}

StatusOr<std::string> FileServer::ReadStored(
    const std::string& path, WireReader& in,
    std::span<std::byte> shared) const {
  ElementType type{.dtype = in.Get<DType>()};
  type.fields = in.GetText();
  const std::vector<Filter> filters = GetFilters(in);
  const Box box = in.GetBox();
  // Only here, since it loads the plugins.
  BELAY_RETURN_IF_ERROR(CheckCanRead(filters));
  BELAY_RETURN_IF_ERROR(ReadHyperslab(file_, path, type, box, shared.data()));
  return std::string();
}

}  // namespace belay::h5
