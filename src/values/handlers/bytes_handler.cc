// The bytes of State::AddBytes: a string, which functions of the program make
// and read.

#include <utility>

#include "base/text.h"
#include "belay/handlers/type_handler.h"
#include "belay/state.h"

namespace belay {
namespace {

struct ProgramBytes {
  std::function<StatusOr<std::string>()> get;
  std::function<Status(const std::string&)> set;
};

class BytesHandler final : public Handler<ProgramBytes> {
 public:
  // Empty: stored as a plain string.
  std::string typestr() const override { return ""; }
  bool HasFinalize() const override { return false; }
  Status ListForSave(ProgramBytes& value, State& parts) const override {
    StatusOr<std::string> bytes = value.get();
    if (!bytes.ok()) return bytes.status();
    parts.Add("", parts.Own(std::make_shared<std::string>(*std::move(bytes))));
    return absl::OkStatus();
  }
  Status ListForRestore(ProgramBytes&, const StoredValue&,
                        State& parts) const override {
    parts.Add("", parts.Own(std::make_shared<std::string>()));
    return absl::OkStatus();
  }
  Status Received(ProgramBytes& value, const StoredValue&, int,
                  State& more) const override {
    return value.set(more.Owned<std::string>(0));
  }
};

}  // namespace

void State::AddBytes(std::string_view key,
                     std::function<StatusOr<std::string>()> get,
                     std::function<Status(const std::string&)> set) {
  if (get == nullptr || set == nullptr) {
    return AddError(key, absl::InvalidArgumentError("a function is null"));
  }
  auto bytes = std::make_shared<ProgramBytes>(
      ProgramBytes{std::move(get), std::move(set)});
  AddValue(key, RefTo(Own(std::move(bytes))), std::make_shared<BytesHandler>());
}

}  // namespace belay
