// Reading an index. JSON is read event by event, as that of a header: a tree of
// what nobody asks for would take ten times the memory of the file.

#include <set>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "nlohmann/json.hpp"
#include "safetensors/plan/file_plan.h"

namespace belay::safetensors {
namespace {

using nlohmann::json;

constexpr std::string_view kWeightMap = "weight_map";
// An index that programs write has two.
constexpr int kMostDepth = 64;

// A name that stays in its directory.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

// Takes the events of the JSON parser, each of which tells it whether to go on.
class IndexEvents {
 public:
  bool start_object(size_t) {
    if (depth_ == 1 && member_ == kWeightMap) has_map_ = true;
    return Enter("object");
  }
  bool start_array(size_t) { return Enter("array"); }
  bool end_object() { return Leave(); }
  bool end_array() { return Leave(); }

  bool key(std::string& text) {
    if (depth_ == 1) {
      member_ = text;
      return members_.insert(text).second || Twice(text);
    }
    if (!IsInMap()) return true;
    const auto [at, is_new] = file_of_.try_emplace(text);
    at_ = at;
    return is_new || Twice(text);
  }

  bool string(std::string& text) {
    if (!IsInMap()) return true;
    if (!IsPlainName(text)) {
      status_ = absl::InvalidArgumentError(absl::StrFormat(
          "the file of tensor \"%s\" is not in the directory of the index "
          "(need a name without \"/\", found \"%s\")",
          at_->first, text));
      return false;
    }
    at_->second = text;
    return true;
  }

  bool number_unsigned(uint64_t) { return Other("number"); }
  bool number_integer(int64_t) { return Other("number"); }
  bool number_float(double, const std::string&) { return Other("number"); }
  bool null() { return Other("null"); }
  bool boolean(bool) { return Other("boolean"); }
  bool binary(json::binary_t&) { return Other("binary"); }

  bool parse_error(size_t position, const std::string&,
                   const json::exception&) {
    return Fail(absl::StrFormat("the index is not JSON, at byte %d", position));
  }

  const Status& status() const { return status_; }
  bool has_map() const { return has_map_; }
  FileOfTensor& file_of() { return file_of_; }

 private:
  bool IsInMap() const {
    return has_map_ && depth_ == 2 && member_ == kWeightMap;
  }

  bool Fail(const std::string& message) {
    status_ = absl::DataLossError(message);
    return false;
  }

  bool Twice(const std::string& name) {
    return Fail(absl::StrFormat("the name \"%s\" appears twice", name));
  }

  // A value that is no text.
  bool Other(const char* kind) {
    if (!IsInMap()) return true;
    return Fail(
        absl::StrFormat("the file of tensor \"%s\" is not a string (found %s)",
                        at_->first, kind));
  }

  bool Enter(const char* kind) {
    if (!Other(kind)) return false;
    if (++depth_ <= kMostDepth) return true;
    return Fail(absl::StrFormat(
        "the index is nested too deep (need at most %d levels)", kMostDepth));
  }

  bool Leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  std::string member_;  // of the outermost object
  std::set<std::string> members_;
  bool has_map_ = false;
  FileOfTensor file_of_;
  FileOfTensor::iterator at_;  // the tensor that was named last
  Status status_;
};

}  // namespace

StatusOr<FileOfTensor> ParseIndex(std::string_view text) {
  // The parser takes a NUL for the end.
  if (const size_t at = text.find('\0'); at != text.npos) {
    return absl::DataLossError(
        absl::StrFormat("the index is not JSON, at byte %d: a NUL", at));
  }
  IndexEvents events;
  if (!json::sax_parse(text, &events)) return events.status();
  if (!events.has_map()) {
    return absl::DataLossError(
        "the index has no \"weight_map\" of tensors and files");
  }
  return std::move(events.file_of());
}

}  // namespace belay::safetensors
