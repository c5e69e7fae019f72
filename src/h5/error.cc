#include "h5/error.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "base/fault.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace belay::h5 {
namespace {

using absl::StatusCode;

struct Symptom {
  std::string_view text;
  StatusCode code;
};

// The first match decides. Lower case; HDF5, strerror and MPI texts. The
// system's own reasons come before what HDF5 concludes from them.
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
    {"doesn't exist", StatusCode::kNotFound},
    {"component not found", StatusCode::kNotFound},
};

struct ErrorText {
  std::string cause;  // the deepest message
  std::string all;    // every message without the names in it
};

std::string MessageText(hid_t id) {
  char text[128] = "";
  H5Eget_msg(id, nullptr, text, sizeof(text));
  return text;
}

// Cuts numbers of this process, such as times and addresses, from a message
// that quotes the system: two ranks with the same error say the same.
std::string Tidy(std::string_view text) {
  constexpr std::string_view kQuote = "error message = '";
  const size_t quote = text.find(kQuote);
  if (quote == text.npos)
    return absl::StrReplaceAll(AbslView(text), {{"\n", " "}});
  std::string_view reason = text.substr(quote + kQuote.size());
  reason = reason.substr(0, reason.find('\''));
  std::string lower(reason);
  if (!lower.empty()) lower[0] = absl::ascii_tolower(lower[0]);
  return Cat(text.substr(0, text.find_first_of(":,")), ": ", lower);
}

// Drops what stands between apostrophes, so that a name never looks like a
// symptom. The one in "doesn't" opens nothing.
std::string WithoutNames(std::string_view text) {
  std::string result;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool mark = text[i] == '\'';
    const bool opens = mark && (i == 0 || text[i - 1] == ' ');
    if (!quoted && !opens) result += text[i];
    quoted = quoted ? !mark : opens;
  }
  return absl::AsciiStrToLower(result);
}

herr_t Collect(unsigned /*depth*/, const H5E_error2_t* error, void* data) {
  auto& out = *static_cast<ErrorText*>(data);
  const std::string text = Tidy(error->desc != nullptr ? error->desc : "");
  out.all += WithoutNames(text) + "\n";
  if (out.cause.empty() && !text.empty()) {
    out.cause = Cat(text, " (", MessageText(error->maj_num), ": ",
                    MessageText(error->min_num), ")");
  }
  return 0;
}

ErrorText TakeErrorStack() {
  ErrorText text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, Collect, &text);
  H5Eclear2(H5E_DEFAULT);
  if (text.cause.empty()) text.cause = "HDF5 failed without a message";
  return text;
}

StatusCode CodeOf(const std::string& all) {
  for (const Symptom& symptom : kSymptoms) {
    if (all.find(symptom.text) != all.npos) return symptom.code;
  }
  return StatusCode::kInternal;
}

Status Failure(std::string_view site, std::string_view object) {
  const ErrorText text = TakeErrorStack();
  std::string what(site);
  if (!object.empty()) what += Cat(" \"", object, "\"");
  return Status(CodeOf(text.all), Cat(what, ": ", text.cause));
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
  return injected;
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

}  // namespace belay::h5
