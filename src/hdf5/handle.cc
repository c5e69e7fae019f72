#include "hdf5/handle.h"

#include <algorithm>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_replace.h"
#include "core/errno_status.h"
#include "core/fault.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay::h5 {
namespace {

struct Closer {
  H5I_type_t type;
  herr_t (*close)(hid_t);
  std::string_view site;
};

constexpr Closer kClosers[] = {
    {H5I_FILE, H5Fclose, "close file"},
    {H5I_GROUP, H5Gclose, "close group"},
    {H5I_DATASET, H5Dclose, "close dataset"},
    {H5I_ATTR, H5Aclose, "close attribute"},
    {H5I_DATATYPE, H5Tclose, "close type"},
    {H5I_DATASPACE, H5Sclose, "close dataspace"},
    {H5I_GENPROP_LST, H5Pclose, "close property list"},
};

constexpr Closer kAnyCloser = {H5I_BADID, H5Idec_ref, "close identifier"};

const Closer& FindCloser(hid_t id) {
  const H5I_type_t type = H5Iget_type(id);
  for (const Closer& closer : kClosers) {
    if (closer.type == type) return closer;
  }
  return kAnyCloser;
}

void CloseSilently(hid_t id) {
  FindCloser(id).close(id);
  TakeWriteError();
  H5Eclear2(H5E_DEFAULT);
}

}  // namespace

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this == &other) return *this;
  if (is_open() && at_end_ == AtEnd::kClose) CloseSilently(id_);
  id_ = std::exchange(other.id_, H5I_INVALID_HID);
  name_ = std::move(other.name_);
  at_end_ = other.at_end_;
  return *this;
}

Handle::~Handle() {
  if (is_open() && at_end_ == AtEnd::kClose) CloseSilently(id_);
}

Status Handle::Close() {
  if (!is_open()) return absl::OkStatus();
  const hid_t id = std::exchange(id_, H5I_INVALID_HID);
  const Closer& closer = FindCloser(id);
  Status status = Check(closer.close(id), closer.site, name_);
  // Checked even if HDF5 did not report a failed write.
  if (const int error = TakeWriteError(); error != 0) {
    status.Update(ErrnoStatus(error, closer.site, name_));
  }
  return status;
}

// --- Error ---

namespace {

using absl::StatusCode;

struct Symptom {
  std::string_view text;
  StatusCode code;
};

// The first match decides. Lower-case texts of HDF5, strerror and MPI. The
// system's own reasons precede what HDF5 concludes from them.
constexpr Symptom kSymptoms[] = {
    {"no space left", StatusCode::kResourceExhausted},
    {"no_space", StatusCode::kResourceExhausted},
    {"quota", StatusCode::kResourceExhausted},
    {"file too large", StatusCode::kResourceExhausted},
    {"cannot allocate memory", StatusCode::kResourceExhausted},
    {"memory allocation failed", StatusCode::kResourceExhausted},
    {"no such file", StatusCode::kNotFound},
    {"no_such_file", StatusCode::kNotFound},
    {"not a directory", StatusCode::kNotFound},
    {"permission denied", StatusCode::kPermissionDenied},
    {"operation not permitted", StatusCode::kPermissionDenied},
    {"read-only file system", StatusCode::kPermissionDenied},
    {"mpi_err_access", StatusCode::kPermissionDenied},
    {"mpi_err_read_only", StatusCode::kPermissionDenied},
    {"file exists", StatusCode::kAlreadyExists},
    {"name already exists", StatusCode::kAlreadyExists},
    {"is a directory", StatusCode::kDataLoss},
    {"truncated", StatusCode::kDataLoss},
    {"signature", StatusCode::kDataLoss},
    {"checksum", StatusCode::kDataLoss},
    {"superblock", StatusCode::kDataLoss},
    {"exceeds eoa", StatusCode::kDataLoss},
    {"doesn't exist", StatusCode::kNotFound},
    {"component not found", StatusCode::kNotFound},
    {"unable to open external file", StatusCode::kNotFound},
};

struct ErrorText {
  std::string cause;        // deepest message
  std::string all;          // every message, without names
  bool has_reason = false;  // from the system or MPI
  std::string reasons;      // all reasons, in lower case
};

constexpr std::string_view kOfSystem = "belay/h5/of_system";

std::string MessageText(hid_t id) {
  char text[128] = "";
  H5Eget_msg(id, nullptr, text, sizeof(text));
  return text;
}

// HDF5 writes these before a quoted text from strerror or MPI.
constexpr std::string_view kReasons[] = {"error message = '",
                                         "MPI error string is '"};

// Returns the text that HDF5 quotes in a message; empty if there is none.
std::string QuotedReason(std::string_view text) {
  for (const std::string_view introduction : kReasons) {
    const size_t at = text.find(introduction);
    if (at == text.npos) continue;
    const std::string_view rest = text.substr(at + introduction.size());
    std::string reason(rest.substr(0, rest.find('\'')));
    const bool word = reason.size() > 1 && absl::ascii_islower(reason[1]);
    if (word) reason[0] = absl::ascii_tolower(reason[0]);
    return reason;
  }
  return {};
}

// Returns the message of one level. If it quotes a reason, keeps only its first
// words and the reason: the rest is times and addresses of this process, which
// differ between ranks with the same error.
std::string LevelText(const H5E_error2_t& error) {
  const std::string_view text = error.desc != nullptr ? error.desc : "";
  if (text.empty()) return {};
  const std::string reason = QuotedReason(text);
  if (!reason.empty()) {
    return Cat(text.substr(0, text.find_first_of(":,")), ": ", reason);
  }
  return Cat(absl::StrReplaceAll(AbslView(text), {{"\n", " "}}), " (",
             MessageText(error.maj_num), ": ", MessageText(error.min_num), ")");
}

// Removes the text between the first and the last apostrophe, so that a name is
// never mistaken for a symptom. The apostrophe in "doesn't" does not count.
std::string WithoutNames(const std::string& text) {
  const auto is_letter = [&](size_t at) {
    return at < text.size() && absl::ascii_isalpha(text[at]);
  };
  size_t begin = text.find('\'');
  while (begin != text.npos && begin > 0 && is_letter(begin - 1)) {
    begin = text.find('\'', begin + 1);
  }
  size_t end = text.rfind('\'');
  while (end != text.npos && end > begin && is_letter(end + 1)) {
    end = text.rfind('\'', end - 1);
  }
  std::string plain = text;
  if (begin < end && end != text.npos) plain.erase(begin, end - begin);
  return absl::AsciiStrToLower(plain);
}

herr_t Collect(unsigned /*depth*/, const H5E_error2_t* error, void* data) {
  auto& out = *static_cast<ErrorText*>(data);
  const std::string text = LevelText(*error);
  if (error->desc != nullptr) {
    const std::string reason = QuotedReason(error->desc);
    out.has_reason = out.has_reason || !reason.empty();
    out.reasons += absl::AsciiStrToLower(reason) + "\n";
  }
  out.all += WithoutNames(text) + "\n";
  if (out.cause.empty()) out.cause = text;
  return 0;
}

ErrorText TakeErrorStack() {
  ErrorText text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, Collect, &text);
  H5Eclear2(H5E_DEFAULT);
  if (text.cause.empty()) text.cause = "HDF5 failed without a message";
  return text;
}

// HDF5 always quotes the text of an error number, but not always the number.
bool IsTransient(const std::string& reasons) {
  const auto& category = std::generic_category();
  return std::ranges::any_of(TransientErrors(), [&](int error) {
    return reasons.find(absl::AsciiStrToLower(category.message(error))) !=
           reasons.npos;
  });
}

StatusCode ChooseCode(const ErrorText& text) {
  if (IsTransient(text.reasons)) return StatusCode::kUnavailable;
  for (const Symptom& symptom : kSymptoms) {
    if (text.all.find(symptom.text) != text.all.npos) return symptom.code;
  }
  return StatusCode::kInternal;
}

Status Failure(std::string_view site, std::string_view object) {
  const ErrorText text = TakeErrorStack();
  std::string what(site);
  if (!object.empty()) what += Cat(" \"", object, "\"");
  Status status(ChooseCode(text), Cat(what, ": ", text.cause));
  if (text.has_reason) status.SetPayload(AbslView(kOfSystem), absl::Cord());
  return status;
}

}  // namespace

void InitLibrary() {
  static const bool done =
      H5open() >= 0 && H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  static_cast<void>(done);
}

Status Judge(bool ok, std::string_view site, std::string_view object) {
  Status injected = fault::Point(site);
  if (!ok) return Failure(site, object);
  // An injected fault represents a failure of the system.
  if (!injected.ok()) injected.SetPayload(AbslView(kOfSystem), absl::Cord());
  return injected;
}

bool IsOfSystem(const Status& status) {
  return status.GetPayload(AbslView(kOfSystem)).has_value();
}

Status Check(herr_t result, std::string_view site, std::string_view object) {
  return Judge(result >= 0, site, object);
}

StatusOr<int64_t> Number(int64_t result, std::string_view site,
                         std::string_view object) {
  BELAY_RETURN_IF_ERROR(Judge(result >= 0, site, object));
  return result;
}

StatusOr<Handle> Own(hid_t id, std::string_view site, std::string_view object) {
  Handle handle(id, std::string(object));
  BELAY_RETURN_IF_ERROR(Judge(id >= 0, site, object));
  return handle;
}

StatusOr<std::string> ReadName(
    absl::FunctionRef<ssize_t(char* name, size_t size)> read,
    std::string_view site, std::string_view object) {
  BELAY_ASSIGN_OR_RETURN(const int64_t length,
                         Number(read(nullptr, 0), site, object));
  std::string name(static_cast<size_t>(length) + 1, '\0');
  BELAY_RETURN_IF_ERROR(
      Number(read(name.data(), name.size()), site, object).status());
  name.pop_back();
  return name;
}

StatusOr<Handle> GetSpace(const Handle& dataset) {
  return Own(H5Dget_space(dataset.get()), "get dataspace of", dataset.name());
}

StatusOr<Handle> GetType(const Handle& dataset) {
  return Own(H5Dget_type(dataset.get()), "get type of", dataset.name());
}

StatusOr<Handle> GetCreationProperties(const Handle& dataset) {
  return Own(H5Dget_create_plist(dataset.get()), "get properties of",
             dataset.name());
}

}  // namespace belay::h5
