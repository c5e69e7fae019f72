#include "mpi/mpi_file.h"

#include <cstdlib>

#include "absl/strings/match.h"
#include "core/text.h"

namespace belay {
namespace {

constexpr char kSieving[] = "fbtl_posix_write_datasieving";
constexpr int64_t kMaxBytes = int64_t{1} << 30;

// Blocks of bytes in order; a block adjacent to the last one extends it.
class Blocks {
 public:
  Blocks() = default;
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  ~Blocks() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }

  void Add(MPI_Aint start, int64_t bytes) {
    if (!starts_.empty() && starts_.back() + lengths_.back() == start) {
      lengths_.back() += static_cast<int>(bytes);
      return;
    }
    starts_.push_back(start);
    lengths_.push_back(static_cast<int>(bytes));
  }

  Status MakeType() {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    BELAY_RETURN_IF_ERROR(
        MpiError(MPI_Type_create_hindexed(static_cast<int>(lengths_.size()),
                                          lengths_.data(), starts_.data(),
                                          MPI_BYTE, &made),
                 "describe blocks"));
    type_ = made;
    return MpiError(MPI_Type_commit(&type_), "describe blocks");
  }

  // MPI_BYTE before MakeType.
  MPI_Datatype type() const { return type_; }

  // Leaks the datatype, so that no later datatype gets its handle. ROMIO caches
  // its own description of a datatype by handle, and does not remove it after
  // an error: the next write would go where this one should have gone.
  void KeepType() { type_ = MPI_BYTE; }

 private:
  std::vector<int> lengths_;
  std::vector<MPI_Aint> starts_;
  MPI_Datatype type_ = MPI_BYTE;
};

// One rank's part of a collective write.
struct Request {
  Blocks in_file;
  Blocks in_memory;
  int64_t bytes = 0;
};

Status Describe(std::span<const IoSegment> segments, const std::string& path,
                Request& request) {
  int64_t end = 0;
  for (const IoSegment& segment : segments) {
    if (segment.offset < end || segment.bytes < 0) {
      return absl::InvalidArgumentError(
          Cat("write \"", path,
              "\": segments are not ascending and disjoint (need"
              " offset ",
              end, " or more, found ", segment.offset, ")"));
    }
    if (segment.bytes > kMaxBytes - request.bytes) {
      return absl::InvalidArgumentError(
          Cat("write \"", path, "\": too much for one call (need ", kMaxBytes,
              " bytes or less, found ", request.bytes + segment.bytes, ")"));
    }
    end = segment.offset + segment.bytes;
    if (segment.bytes == 0) continue;
    MPI_Aint address;
    MPI_Get_address(segment.data, &address);
    request.in_file.Add(segment.offset, segment.bytes);
    request.in_memory.Add(address, segment.bytes);
    request.bytes += segment.bytes;
  }
  if (request.bytes == 0) return absl::OkStatus();
  BELAY_RETURN_IF_ERROR(request.in_file.MakeType());
  return request.in_memory.MakeType();
}

Status CheckLength(std::string_view what, const std::string& text,
                   size_t most) {
  if (!text.empty() && text.size() < most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("set hint: ", what, " \"", text, "\" has a wrong length (need 1 to ",
          most - 1, " characters, found ", text.size(), ")"));
}

// Sets the valid hints, and returns the error of the first invalid one. MPI
// would pass the error to the error handler of MPI_COMM_WORLD, which ends the
// program.
Status MakeInfo(const std::map<std::string, std::string>& hints,
                MPI_Info& info) {
  Status status = MpiError(MPI_Info_create(&info), "create hints");
  for (const auto& [key, value] : hints) {
    Status valid = CheckLength("key", key, MPI_MAX_INFO_KEY);
    valid.Update(CheckLength("value", value, MPI_MAX_INFO_VAL));
    status.Update(valid);
    if (!valid.ok() || info == MPI_INFO_NULL) continue;
    status.Update(MpiError(MPI_Info_set(info, key.c_str(), value.c_str()),
                           "set hint", key));
  }
  return status;
}

// ROMIO adds hints of its own, also under MPICH and its derivatives.
StatusOr<bool> IsRomio(MPI_File file,
                       const std::map<std::string, std::string>& hints) {
  MPI_Info info = MPI_INFO_NULL;
  BELAY_RETURN_IF_ERROR(MpiError(MPI_File_get_info(file, &info), "get hints"));
  int count = 0;
  MPI_Info_get_nkeys(info, &count);
  bool found = false;
  for (int i = 0; i < count; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = {};
    MPI_Info_get_nthkey(info, i, key);
    found = found || (absl::StartsWith(key, "romio_") && !hints.contains(key));
  }
  MPI_Info_free(&info);
  return found;
}

// Returns true if a selection of Open MPI's io components, such as "romio321",
// "ompio" or "^ompio", leaves only ROMIO. Without a selection, OMPIO is
// possible.
bool SelectsRomio(std::string_view selection) {
  if (selection.empty()) return false;
  const bool excludes = selection.front() == '^';
  if (excludes) selection.remove_prefix(1);
  bool names_ompio = false;
  bool only_romio = true;
  for (std::string_view name : Split(selection, ',')) {
    names_ompio = names_ompio || name == "ompio";
    only_romio = only_romio && name.starts_with("romio");
  }
  return excludes ? names_ompio : only_romio;
}

// Returns the value of a control variable of Open MPI; "" if there is none.
std::string ReadVariable(const char* name) {
  int index = 0;
  int count = 0;
  MPI_T_cvar_handle handle;
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) {
    return "";
  }
  // For texts, the count is the number of characters; for numbers it is 1, and
  // they have at most 8 bytes.
  std::string value(std::max(count, 8), '\0');
  const int code = MPI_T_cvar_read(handle, value.data());
  MPI_T_cvar_handle_free(&handle);
  return code == MPI_SUCCESS ? value : "";
}

// Open MPI reads the environment only when it loads its file components, at the
// program's first open. Keeps a value set by the user.
void AskForNoSieving() { setenv(Cat("OMPI_MCA_", kSieving).c_str(), "0", 0); }

// Open MPI does not report which component serves a file. The tool interface
// stays initialized: starting it loads every component, which takes 0.2 s.
MpiIoVerdict JudgeOpenMpi() {
  const MpiIoVerdict romio{.sound = true, .name = "ROMIO"};
  const char* selection = std::getenv("OMPI_MCA_io");
  if (selection != nullptr && SelectsRomio(selection)) return romio;
  MpiIoVerdict verdict{.name = "OMPIO"};
  int provided = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) {
    verdict.note = "the MPI tool interface does not start";
    return verdict;
  }
  if (SelectsRomio(ReadVariable("io").c_str())) return romio;
  const std::string sieving = ReadVariable(kSieving);
  verdict.sound = sieving == std::string(8, '\0');
  const char* state = sieving.empty() ? " cannot be read"
                      : verdict.sound ? " is 0"
                                      : " is not 0";
  verdict.note = Cat(kSieving, state);
  return verdict;
}

// Closes the file if all ranks have it open. Otherwise leaves it open: closing
// is collective and would hang.
void CloseIfOpenEverywhere(CommContext& context, MPI_File file) {
  int64_t have = file != MPI_FILE_NULL ? 1 : 0;
  if (MinAll(context, {&have, 1}).ok() && have == 1) MPI_File_close(&file);
}

}  // namespace

MpiFile& MpiFile::operator=(MpiFile&& other) noexcept {
  file_ = std::exchange(other.file_, MPI_FILE_NULL);
  path_ = std::move(other.path_);
  hints_ = std::move(other.hints_);
  status_ = std::exchange(other.status_, absl::OkStatus());
  return *this;
}

Agreed<MpiFile> MpiFile::OpenForWrite(
    CommContext& context, const std::string& path,
    const std::map<std::string, std::string>& hints) {
  MpiFile opened;
  opened.path_ = path;
  opened.hints_ = hints;
  MPI_Info info = MPI_INFO_NULL;
  Status status = MakeInfo(hints, info);
  AskForNoSieving();
  // Opened for reading too: aggregators read the bytes between the pieces that
  // they write.
  const int code = MPI_File_open(context.comm.raw(), path.c_str(),
                                 MPI_MODE_RDWR, info, &opened.file_);
  if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  if (code != MPI_SUCCESS) opened.file_ = MPI_FILE_NULL;
  status.Update(MpiStatus(code, "open", path));
  const Agreed<> agreed = Agree(context, status);
  if (!agreed.ok()) {
    CloseIfOpenEverywhere(context, opened.file_);
    return agreed.error();
  }
  MPI_File_set_errhandler(opened.file_, MPI_ERRORS_RETURN);
  return opened;
}

Agreed<MpiIoVerdict> MpiFile::Judge(CommContext& context, const Status& mine) {
  const auto judge = [&]() -> StatusOr<MpiIoVerdict> {
    BELAY_ASSIGN_OR_RETURN(const bool is_romio, IsRomio(file_, hints_));
    if (is_romio) return MpiIoVerdict{.sound = true, .name = "ROMIO"};
    return JudgeOpenMpi();
  };
  StatusOr<MpiIoVerdict> here = judge();
  Status told = here.status();
  if (here.ok() && !here->sound) {
    told = absl::FailedPreconditionError(here->note);
  } else if (here.ok() && absl::IsFailedPrecondition(mine)) {
    told = absl::AbortedError(mine.message());
  } else if (here.ok()) {
    told = mine;
  }
  const Agreed<> agreed = Agree(context, told);
  if (agreed.ok()) return *std::move(here);
  // No other error has this code: the stack of some rank is not sound.
  if (!absl::IsFailedPrecondition(agreed.status())) return agreed.error();
  return MpiIoVerdict{.name = "OMPIO",
                      .note = std::string(agreed.status().message())};
}

Status MpiFile::WriteAll(std::span<const IoSegment> segments,
                         const std::function<void()>& meanwhile) {
  Request request;
  status_.Update(Describe(segments, path_, request));
  // From here on, the calls are collective: a rank that failed takes part
  // without data.
  status_.Update(MpiStatus(
      MPI_File_set_view(file_, 0, MPI_BYTE,
                        status_.ok() ? request.in_file.type() : MPI_BYTE,
                        "native", MPI_INFO_NULL),
      "set view of", path_));
  if (meanwhile) meanwhile();
  const int64_t needed = status_.ok() ? request.bytes : 0;
  MPI_Status result;
  const int code = MPI_File_write_at_all(
      file_, 0, MPI_BOTTOM, needed > 0 ? 1 : 0,
      needed > 0 ? request.in_memory.type() : MPI_BYTE, &result);
  if (code != MPI_SUCCESS) {
    request.in_memory.KeepType();
    request.in_file.KeepType();
  }
  status_.Update(MpiStatus(code, "write", path_));
  if (!status_.ok() || needed == 0) return status_;
  MPI_Count written = 0;
  MPI_Get_elements_x(&result, MPI_BYTE, &written);
  if (written != needed) {
    status_ = absl::ResourceExhaustedError(Cat("write \"", path_,
                                               "\": short write (need ", needed,
                                               " bytes, found ", written, ")"));
  }
  return status_;
}

Status MpiFile::Close() {
  if (file_ == MPI_FILE_NULL) return status_;
  status_.Update(MpiStatus(MPI_File_close(&file_), "close", path_));
  file_ = MPI_FILE_NULL;
  return status_;
}

Status CreateFileWithHints(const std::string& path,
                           const std::map<std::string, std::string>& hints) {
  MPI_Info info = MPI_INFO_NULL;
  Status status = MakeInfo(hints, info);
  AskForNoSieving();  // this may be the program's first open
  if (status.ok()) {
    MPI_File file = MPI_FILE_NULL;
    const int code = MPI_File_open(
        MPI_COMM_SELF, path.c_str(),
        MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, info, &file);
    status = MpiStatus(code, "create", path);
    if (code == MPI_SUCCESS) {
      status.Update(MpiError(MPI_File_close(&file), "close", path));
    }
  }
  if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  return status;
}

}  // namespace belay
