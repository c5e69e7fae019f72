// belay_reader: reads a step without MPI.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/tensor.h"
#include "belay/belay_c.h"
#include "belay/checkpoint_reader.h"
#include "belay/status.h"
#include "c/error.h"
#include "c/handles.h"
#include "core/status_macros.h"

namespace {

using belay::Status;
using belay::StatusOr;
using belay::c::Call;
using belay::c::Give;
using belay::c::NullArgument;

// The maximum size of a piece that is read and then copied to the program.
constexpr int64_t kMaxPieceBytes = int64_t{16} << 20;

// Returns the box that the arguments describe. If both pointers are null, it is
// the whole array.
StatusOr<belay::Box> BoxOf(const belay::ArrayInfo& array, int ndim,
                           const int64_t* offset, const int64_t* shape) {
  const auto axes = static_cast<int>(array.shape.size());
  if (ndim != axes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("read \"%s\": wrong number of axes (need %d, found %d)",
                        array.key, axes, ndim));
  }
  if (offset == nullptr && shape == nullptr) {
    return belay::WholeBox(array.shape);
  }
  if (offset == nullptr) return NullArgument("offset");
  if (shape == nullptr) return NullArgument("shape");
  belay::Box box{{offset, offset + ndim}, {shape, shape + ndim}};
  const Status status = belay::CheckBox(box, array.shape);
  if (!status.ok()) return status;
  return box;
}

// Reads a box into `data`, which must have room for it.
Status ReadBox(const belay::CheckpointReader& reader, const std::string& key,
               const belay::Box& box, void* data) {
  // The pieces arrive in row-major order, and each is contiguous in the box.
  auto* to = static_cast<char*>(data);
  return reader.ReadPieces(
      key, box, kMaxPieceBytes,
      [&](const belay::Box&, const belay::Tensor& piece) -> Status {
        const auto bytes = static_cast<size_t>(piece.num_bytes());
        if (bytes > 0) std::memcpy(to, piece.data(), bytes);
        to += bytes;
        return absl::OkStatus();
      });
}

}  // namespace

int belay_reader_open(const char* path, belay_reader** result) {
  return Call({{"result", result}}, [&]() -> Status {
    *result = nullptr;
    if (path == nullptr) return NullArgument("path");
    StatusOr<belay::CheckpointReader> reader =
        belay::CheckpointReader::Open(path);
    if (!reader.ok()) return reader.status();
    *result = new belay_reader{*std::move(reader)};
    return absl::OkStatus();
  });
}

void belay_reader_close(belay_reader** reader) {
  if (reader != nullptr) delete std::exchange(*reader, nullptr);
}

int belay_reader_step(const belay_reader* reader, int64_t* step) {
  return Call({{"reader", reader}}, [&]() -> Status {
    Give(step, reader->reader.info().step);
    return absl::OkStatus();
  });
}

int belay_reader_time(const belay_reader* reader, int64_t* seconds) {
  return Call({{"reader", reader}}, [&]() -> Status {
    Give(seconds, reader->reader.info().time);
    return absl::OkStatus();
  });
}

int belay_reader_num_arrays(const belay_reader* reader, int64_t* count) {
  return Call({{"reader", reader}}, [&]() -> Status {
    Give(count, reader->reader.info().arrays.size());
    return absl::OkStatus();
  });
}

int belay_reader_key(const belay_reader* reader, int64_t index,
                     const char** key) {
  return Call({{"reader", reader}}, [&]() -> Status {
    const std::vector<belay::ArrayInfo>& arrays = reader->reader.info().arrays;
    const auto count = static_cast<int64_t>(arrays.size());
    if (index < 0 || index >= count) {
      return absl::OutOfRangeError(absl::StrFormat(
          "key of an array: no such index (need 0 to %d, found %d)", count - 1,
          index));
    }
    Give(key, arrays[static_cast<size_t>(index)].key.c_str());
    return absl::OkStatus();
  });
}

int belay_reader_describe(const belay_reader* reader, const char* key,
                          int* dtype, int* ndim, int capacity, int64_t* shape) {
  return Call({{"reader", reader}, {"key", key}}, [&]() -> Status {
    if (shape == nullptr && capacity > 0) return NullArgument("shape");
    BELAY_ASSIGN_OR_RETURN(const belay::ArrayInfo array,
                           reader->reader.Find(key));
    Give(dtype, array.dtype);
    Give(ndim, array.shape.size());
    const auto axes = static_cast<int>(array.shape.size());
    std::copy_n(array.shape.begin(), std::clamp(capacity, 0, axes), shape);
    return absl::OkStatus();
  });
}

int belay_reader_read(const belay_reader* reader, const char* key, int dtype,
                      int ndim, const int64_t* offset, const int64_t* shape,
                      void* data) {
  return Call({{"reader", reader}, {"key", key}}, [&]() -> Status {
    BELAY_ASSIGN_OR_RETURN(const belay::ArrayInfo array,
                           reader->reader.Find(key));
    if (dtype != static_cast<int>(array.dtype)) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "read \"%s\": wrong dtype (need %d for %s, found %d)", key,
          static_cast<int>(array.dtype), belay::DTypeName(array.dtype), dtype));
    }
    BELAY_ASSIGN_OR_RETURN(const belay::Box box,
                           BoxOf(array, ndim, offset, shape));
    if (data == nullptr && !belay::IsEmpty(box)) return NullArgument("data");
    return ReadBox(reader->reader, array.key, box, data);
  });
}

int belay_reader_read_string(const belay_reader* reader, const char* key,
                             char* buffer, int64_t capacity, int64_t* length) {
  return Call({{"reader", reader}, {"key", key}}, [&]() -> Status {
    if (buffer == nullptr && capacity > 0) return NullArgument("buffer");
    BELAY_ASSIGN_OR_RETURN(const std::string text,
                           reader->reader.ReadText(key));
    const auto found = static_cast<int64_t>(text.size());
    if (capacity > 0) {
      std::memset(buffer, 0, static_cast<size_t>(capacity));
      std::memcpy(buffer, text.data(),
                  static_cast<size_t>(std::min(capacity, found)));
    }
    Give(length, found);
    return absl::OkStatus();
  });
}

int belay_verify(const char* path,
                 void (*progress)(void* context, int64_t done, int64_t total),
                 void* context) {
  return Call({{"path", path}}, [&]() -> Status {
    BELAY_ASSIGN_OR_RETURN(const std::string step, belay::ResolveStep(path));
    std::function<void(int64_t, int64_t)> report;
    if (progress != nullptr) {
      report = [&](int64_t done, int64_t total) {
        progress(context, done, total);
      };
    }
    BELAY_ASSIGN_OR_RETURN(const belay::VerifyResult result,
                           belay::VerifyCheckpoint(step, report));
    if (result.damage.empty()) return absl::OkStatus();
    return absl::DataLossError(absl::StrFormat(
        "verify \"%s\": damaged (found %d places)\n%s", step,
        result.damage.size(), absl::StrJoin(result.damage, "\n")));
  });
}
