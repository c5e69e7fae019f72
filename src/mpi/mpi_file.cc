#include "mpi/mpi_file.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "mpi/mpi_error.h"

namespace belay {
namespace {

constexpr char kSieving[] = "fbtl_posix_write_datasieving";
constexpr int64_t kMostBytes = int64_t{1} << 30;

// A derived datatype, freed at the end of its scope.
class Datatype {
 public:
  Datatype() = default;
  Datatype(const Datatype&) = delete;
  Datatype& operator=(const Datatype&) = delete;
  ~Datatype() {
    if (type_ != MPI_BYTE) MPI_Type_free(&type_);
  }
  MPI_Datatype raw() const { return type_; }

  // Never frees it, so that no later datatype gets its handle. ROMIO keeps its
  // own description of a datatype by handle, and after an error forgets to
  // remove it: the next write would go where this one should have gone.
  void Keep() { type_ = MPI_BYTE; }

  // Makes it the given blocks of bytes, in order.
  Status Set(const std::vector<int>& lengths,
             const std::vector<MPI_Aint>& starts) {
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const int code = MPI_Type_create_hindexed(static_cast<int>(lengths.size()),
                                              lengths.data(), starts.data(),
                                              MPI_BYTE, &made);
    if (code != MPI_SUCCESS) return MpiError(code, "describe blocks");
    type_ = made;
    return MpiError(MPI_Type_commit(&type_), "describe blocks");
  }

 private:
  MPI_Datatype type_ = MPI_BYTE;
};

// Blocks of bytes in order; a block that continues the last one extends it.
struct Blocks {
  std::vector<int> lengths;
  std::vector<MPI_Aint> starts;

  void Add(MPI_Aint start, int64_t bytes) {
    if (!starts.empty() && starts.back() + lengths.back() == start) {
      lengths.back() += static_cast<int>(bytes);
      return;
    }
    starts.push_back(start);
    lengths.push_back(static_cast<int>(bytes));
  }
};

// What one rank writes in one collective call.
struct Request {
  Blocks in_file;
  Blocks in_memory;
  int64_t bytes = 0;
};

StatusOr<Request> Describe(std::span<const IoSegment> segments,
                           const std::string& path) {
  Request request;
  int64_t end = 0;
  for (const IoSegment& segment : segments) {
    if (segment.offset < end || segment.bytes < 0) {
      return absl::InvalidArgumentError(
          Cat("write \"", path,
              "\": segments are not ascending and disjoint (need"
              " offset ",
              end, " or more, found ", segment.offset, ")"));
    }
    if (segment.bytes > kMostBytes - request.bytes) {
      return absl::InvalidArgumentError(
          Cat("write \"", path, "\": too much for one call (need ", kMostBytes,
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
  return request;
}

Status CheckLength(std::string_view what, const std::string& text,
                   size_t most) {
  if (!text.empty() && text.size() < most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("set hint: ", what, " \"", text, "\" has a wrong length (need 1 to ",
          most - 1, " characters, found ", text.size(), ")"));
}

// Sets the hints that MPI can take; the Status is of the first it cannot. They
// are checked before, because a refusal by MPI would end the program: it goes
// to the error handler of MPI_COMM_WORLD.
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

// Whether the file knows hints of ROMIO that did not come from its user, as
// under MPICH and its relatives.
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

// Whether a selection of Open MPI's io components, such as "romio321", "ompio"
// or "^ompio", leaves ROMIO only. Without one its choice depends on the file
// system, so OMPIO must be reckoned with.
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

// The text of a control variable of Open MPI, or empty if there is none.
std::string ReadVariable(const char* name) {
  int index = 0;
  int count = 0;
  MPI_T_cvar_handle handle;
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) {
    return "";
  }
  // A count is of characters, or 1 for numbers, which are 8 bytes at most.
  std::string value(std::max(count, 8), '\0');
  const int code = MPI_T_cvar_read(handle, value.data());
  MPI_T_cvar_handle_free(&handle);
  return code == MPI_SUCCESS ? value : "";
}

// Open MPI reads the environment when it loads its file components, at the
// first open of the program; it lets nobody set the variable later. A value
// that the user has set is left alone.
void AskForNoSieving() { setenv(Cat("OMPI_MCA_", kSieving).c_str(), "0", 0); }

// Judges Open MPI, which does not tell which component serves a file. The tool
// interface stays on: starting it loads every component, which takes 0.2 s.
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

StatusOr<MpiIoVerdict> JudgeHere(
    MPI_File file, const std::map<std::string, std::string>& hints) {
  BELAY_ASSIGN_OR_RETURN(const bool is_romio, IsRomio(file, hints));
  if (is_romio) return MpiIoVerdict{.sound = true, .name = "ROMIO"};
  return JudgeOpenMpi();
}

// Closes the file if all ranks have it open, else leaves it: closing is
// collective and would hang.
void CloseIfOpenEverywhere(CommContext& context, MPI_File file) {
  int64_t have = file != MPI_FILE_NULL ? 1 : 0;
  if (MinAll(context, {&have, 1}).ok() && have == 1) MPI_File_close(&file);
}

}  // namespace

MpiFile::MpiFile(MpiFile&& other) noexcept
    : file_(std::exchange(other.file_, MPI_FILE_NULL)),
      path_(std::move(other.path_)),
      hints_(std::move(other.hints_)),
      status_(std::exchange(other.status_, absl::OkStatus())) {}

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
  // Aggregators read what lies between the pieces they write.
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
  StatusOr<MpiIoVerdict> here = JudgeHere(file_, hints_);
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
  // Nothing else has this code: some rank's stack is not sound.
  if (!absl::IsFailedPrecondition(agreed.status())) return agreed.error();
  return MpiIoVerdict{.name = "OMPIO",
                      .note = std::string(agreed.status().message())};
}

Status MpiFile::WriteAll(std::span<const IoSegment> segments,
                         const std::function<void()>& meanwhile) {
  Datatype file_type;
  Datatype memory_type;
  StatusOr<Request> request = Describe(segments, path_);
  status_.Update(request.status());
  if (status_.ok() && request->bytes > 0) {
    status_.Update(
        file_type.Set(request->in_file.lengths, request->in_file.starts));
    status_.Update(
        memory_type.Set(request->in_memory.lengths, request->in_memory.starts));
  }
  // From here on the calls are collective: a rank that failed takes part with
  // nothing.
  const bool has_view = status_.ok();
  status_.Update(
      MpiStatus(MPI_File_set_view(file_, 0, MPI_BYTE,
                                  has_view ? file_type.raw() : MPI_BYTE,
                                  "native", MPI_INFO_NULL),
                "set view of", path_));
  if (meanwhile) meanwhile();
  const int64_t needed = status_.ok() ? request->bytes : 0;
  MPI_Status result;
  const int code =
      MPI_File_write_at_all(file_, 0, MPI_BOTTOM, needed > 0 ? 1 : 0,
                            needed > 0 ? memory_type.raw() : MPI_BYTE, &result);
  if (code != MPI_SUCCESS) {
    memory_type.Keep();
    file_type.Keep();
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
  AskForNoSieving();  // this may be the first open of the program
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
