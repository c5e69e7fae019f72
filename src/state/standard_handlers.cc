#include "belay/handlers/standard_handlers.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <locale>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_replace.h"
#include "belay/extend/state.h"
#include "belay/extend/type_handler.h"
#include "belay/handlers/random_handlers.h"
#include "belay/handlers/time_handlers.h"
#include "belay/state.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace standard {
namespace {

// The strings of a vector, converted to arrays.
struct Texts {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> ends;
};

// The elements of a vector as bytes: one byte each, or packed bits that follow
// a byte with the number of unused bits in the last byte.
using Bits = std::vector<uint8_t>;

void AddBools(Bits& bits, bool packed, State& parts) {
  const Shape shape = {std::ssize(bits)};
  AddShard(parts, {.key = packed ? "bits" : "",
                   .dtype = packed ? DType::kU8 : DType::kBool,
                   .global_shape = shape,
                   .box = WholeBox(shape),
                   .replica = State::kReplicaIsRank,
                   .data = bits.data()});
}

Status Damaged(std::string_view what) {
  return absl::DataLossError(Cat("the stored value is damaged: ", what));
}

Status NotStored(const StoredValue& stored, std::string_view what) {
  return absl::FailedPreconditionError(
      Cat("no ", what, " are stored (found typestr \"", stored.typestr,
          "\" of ", stored.parts.size(), " parts)"));
}

// Returns the part if it has this dtype and one axis, else null.
const ValuePart* FindVector(const StoredValue& stored, std::string_view name,
                            DType dtype) {
  const ValuePart* part = stored.Find(name);
  const bool fits =
      part != nullptr && part->dtype == dtype && part->shape.size() == 1;
  return fits ? part : nullptr;
}

template <typename T>
bool ReadWhole(std::string_view name, T& number) {
  const auto read = ParseNumber<T>(name);
  number = read.value_or(number);
  return read.has_value();
}

}  // namespace

std::string PartName(std::string_view key) {
  if (key.empty()) return ".E";
  return absl::StrReplaceAll(AbslView(key), {{".", ".."}, {"/", ".S"}});
}

std::string KeyOfPart(std::string_view name) {
  std::string key;
  for (size_t i = 0; i < name.size(); ++i) {
    const char next = name[i] == '.' && i + 1 < name.size() ? name[i + 1] : 0;
    if (next == '\0') {
      key += name[i];
      continue;
    }
    if (next == 'S') key += '/';
    if (next == '.') key += '.';
    ++i;
  }
  return key;
}

bool ReadNumber(std::string_view name, int64_t& number) {
  return ReadWhole(name, number);
}
bool ReadNumber(std::string_view name, uint64_t& number) {
  return ReadWhole(name, number);
}

Status NoNumberError(std::string_view name) {
  return absl::FailedPreconditionError(
      Cat("the keys of the map are numbers, but the key \"", name,
          "\" is stored, which does not fit their type: restore into a map "
          "whose keys can hold it"));
}

Status LengthError(size_t needed, size_t found) {
  return absl::FailedPreconditionError(
      Cat("the stored list and the tuple have different lengths (need ", needed,
          " values, found ", found,
          "): restore into a std::vector, or into a "
          "tuple of the stored length"));
}

StatusOr<size_t> StoredAlternative(int64_t index, size_t alternatives) {
  if (index >= 0 && index < static_cast<int64_t>(alternatives)) {
    return static_cast<size_t>(index);
  }
  return absl::FailedPreconditionError(
      Cat("the std::variant does not have the stored alternative (need an "
          "index below ",
          alternatives, ", found ", index, ")"));
}

Status NoVariantError(const StoredValue* stored) {
  if (stored != nullptr) return NotStored(*stored, "index and value");
  return absl::InvalidArgumentError(
      "the std::variant has no value, as an exception was thrown while it got "
      "one");
}

StatusOr<int64_t> StoredLength(const StoredValue& stored) {
  const ValuePart* part = stored.Find("");
  if (part != nullptr && part->shape.size() == 1) return part->shape[0];
  return NotStored(stored, "numbers along one axis");
}

bool HasKeys(const StoredValue& stored, std::string_view typestr) {
  return stored.typestr == typestr || stored.typestr == kGroupTypestr;
}

std::vector<std::string> NamesInside(const StoredValue& stored) {
  std::set<std::string> names;
  const auto add = [&](std::string_view name) {
    if (!name.empty()) names.emplace(name.substr(0, name.find('/')));
  };
  for (const ValuePart& part : stored.parts) add(part.name);
  for (const StoredValue& inner : stored.values) {
    add(std::string_view(inner.key).substr(stored.key.size() + 1));
  }
  return {names.begin(), names.end()};
}

Status NoneHandler::ListForRestore(std::monostate&, const StoredValue& stored,
                                   State&) const {
  if (stored.typestr == kNoneTypestr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Cat("a value is stored, but the program has none (need typestr \"",
          kNoneTypestr, "\", found \"", stored.typestr, "\")"));
}

Status StringsHandler::ListForSave(std::vector<std::string>& value,
                                   State& parts) const {
  Texts& texts = Own(parts, std::make_shared<Texts>());
  for (const std::string& text : value) {
    texts.bytes.insert(texts.bytes.end(), text.begin(), text.end());
    texts.ends.push_back(std::ssize(texts.bytes));
  }
  parts.Add("bytes", texts.bytes);
  parts.Add("ends", texts.ends);
  return absl::OkStatus();
}

Status StringsHandler::ListForRestore(std::vector<std::string>&,
                                      const StoredValue& stored,
                                      State& parts) const {
  const ValuePart* bytes = FindVector(stored, "bytes", DType::kU8);
  const ValuePart* ends = FindVector(stored, "ends", DType::kI64);
  if (bytes == nullptr || ends == nullptr) return NotStored(stored, "strings");
  Texts& texts = Own(parts, std::make_shared<Texts>());
  texts.bytes.resize(static_cast<size_t>(bytes->shape[0]));
  texts.ends.resize(static_cast<size_t>(ends->shape[0]));
  parts.Add("bytes", texts.bytes);
  parts.Add("ends", texts.ends);
  return absl::OkStatus();
}

Status StringsHandler::Received(std::vector<std::string>& value,
                                const StoredValue&, int, State& more) const {
  const Texts& texts = Owned<Texts>(more, 0);
  const int64_t size = std::ssize(texts.bytes);
  int64_t last = 0;
  for (const int64_t end : texts.ends) {
    if (end < last || end > size) {
      return Damaged("a string ends outside of its bytes");
    }
    last = end;
  }
  if (last != size) return Damaged("there are bytes after the last string");
  std::vector<std::string> found;
  found.reserve(texts.ends.size());
  last = 0;
  for (const int64_t end : texts.ends) {
    found.emplace_back(texts.bytes.begin() + last, texts.bytes.begin() + end);
    last = end;
  }
  value = std::move(found);
  return absl::OkStatus();
}

Status BoolsHandler::ListForSave(std::vector<bool>& value, State& parts) const {
  Bits& bits = Own(parts, std::make_shared<Bits>());
  if (!packed_) {
    bits.assign(value.begin(), value.end());
  } else {
    bits.resize(1 + (value.size() + 7) / 8);
    bits[0] = static_cast<uint8_t>(8 * (bits.size() - 1) - value.size());
    for (size_t i = 0; i < value.size(); ++i) {
      if (value[i]) bits[1 + i / 8] |= static_cast<uint8_t>(1u << (i % 8));
    }
  }
  AddBools(bits, packed_, parts);
  return absl::OkStatus();
}

Status BoolsHandler::ListForRestore(std::vector<bool>&,
                                    const StoredValue& stored,
                                    State& parts) const {
  const ValuePart* packed = FindVector(stored, "bits", DType::kU8);
  const ValuePart* part =
      packed != nullptr ? packed : FindVector(stored, "", DType::kBool);
  if (part == nullptr) return NotStored(stored, "bools");
  Bits& bits = Own(parts, std::make_shared<Bits>());
  bits.resize(static_cast<size_t>(part->shape[0]));
  AddBools(bits, packed != nullptr, parts);
  return absl::OkStatus();
}

Status BoolsHandler::Received(std::vector<bool>& value,
                              const StoredValue& stored, int,
                              State& more) const {
  const Bits& bits = Owned<Bits>(more, 0);
  if (stored.Find("bits") == nullptr) {
    value.assign(bits.begin(), bits.end());
    return absl::OkStatus();
  }
  const size_t bytes = bits.empty() ? 0 : bits.size() - 1;
  if (bits.empty() || bits[0] > 7 || bits[0] > 8 * bytes) {
    return Damaged("the number of bits is out of range");
  }
  value.resize(8 * bytes - bits[0]);
  for (size_t i = 0; i < value.size(); ++i) {
    value[i] = ((bits[1 + i / 8] >> (i % 8)) & 1) != 0;
  }
  return absl::OkStatus();
}

}  // namespace standard

Status RegisterStandardHandlers(const StandardHandlerOptions& options,
                                TypeHandlerRegistry& registry) {
  const HandlerOptions overriding = {.override_existing = true};
  BELAY_RETURN_IF_ERROR(registry.Add<std::vector<std::string>>(
      standard::Shared<standard::StringsHandler>(), overriding));
  return registry.Add<std::vector<bool>>(
      std::make_shared<standard::BoolsHandler>(options.pack_bools), overriding);
}

namespace {

// The functions passed to State::AddBytes.
struct ProgramBytes {
  std::function<StatusOr<std::string>()> get;
  std::function<Status(const std::string&)> set;
};

class BytesHandler final : public Handler<ProgramBytes> {
 public:
  // Empty, because the bytes are stored as a plain string.
  std::string typestr() const override { return ""; }
  bool HasFinalize() const override { return false; }
  Status ListForSave(ProgramBytes& value, State& parts) const override {
    BELAY_ASSIGN_OR_RETURN(std::string bytes, value.get());
    parts.Add("", Own(parts, std::make_shared<std::string>(std::move(bytes))));
    return absl::OkStatus();
  }
  Status ListForRestore(ProgramBytes&, const StoredValue&,
                        State& parts) const override {
    parts.Add("", Own(parts, std::make_shared<std::string>()));
    return absl::OkStatus();
  }
  Status Received(ProgramBytes& value, const StoredValue&, int,
                  State& more) const override {
    return value.set(Owned<std::string>(more, 0));
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
  AddTyped(key, RefTo(Own(*this, std::move(bytes))),
           std::make_shared<BytesHandler>());
}

}  // namespace belay

// --- Time handlers ---

namespace belay::standard {
namespace {

std::string UnitText(const TimeUnit& unit) {
  return Cat(unit.num, "/", unit.den, " s");
}

// Removes a number above 0, followed by `next`, from the beginning of `text`.
bool TakeNumber(std::string_view& text, std::string_view next,
                int64_t& number) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || number < 1) return false;
  text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
  if (!text.starts_with(next)) return false;
  text.remove_prefix(next.size());
  return true;
}

}  // namespace

std::string TimeTypestr(std::string_view kind, const TimeUnit& unit) {
  return Cat(kind, " ", UnitText(unit));
}

StatusOr<TimeUnit> StoredUnit(std::string_view kind, std::string_view typestr) {
  std::string_view text = typestr;
  TimeUnit unit;
  if (const std::string begin = Cat(kind, " "); text.starts_with(begin)) {
    text.remove_prefix(begin.size());
    if (TakeNumber(text, "/", unit.num) && TakeNumber(text, " s", unit.den) &&
        text.empty()) {
      return unit;
    }
  }
  return absl::NotFoundError(
      Cat("no ", kind, " is stored (found typestr \"", typestr, "\")"));
}

StatusOr<int64_t> InUnit(int64_t count, const TimeUnit& from,
                         const TimeUnit& to) {
  if (from == to) return count;
  // The factor is in lowest terms, so the count must be divisible by its
  // divisor.
  const int64_t nums = std::gcd(from.num, to.num);
  const int64_t dens = std::gcd(from.den, to.den);
  int64_t factor = 0, divisor = 0, found = 0;
  if (!__builtin_mul_overflow(from.num / nums, to.den / dens, &factor) &&
      !__builtin_mul_overflow(to.num / nums, from.den / dens, &divisor) &&
      count % divisor == 0 &&
      !__builtin_mul_overflow(count / divisor, factor, &found)) {
    return found;
  }
  return absl::FailedPreconditionError(Cat(
      "the stored time is not a whole number of the program's units (need a "
      "multiple of ",
      UnitText(to), ", found ", count, " times ", UnitText(from),
      "): restore it into a duration with a smaller unit"));
}

StatusOr<double> InUnit(double count, const TimeUnit& from,
                        const TimeUnit& to) {
  if (from == to) return count;
  return count * (static_cast<double>(from.num) / static_cast<double>(to.num)) *
         (static_cast<double>(to.den) / static_cast<double>(from.den));
}

Status CountDtypeError(DType stored, DType wanted) {
  return absl::FailedPreconditionError(
      Cat("the stored time has another dtype than the program's (need ",
          DTypeName(wanted), ", found ", DTypeName(stored),
          "): restore it into a duration that counts in ", DTypeName(stored)));
}

Status CountError(int64_t count, const TimeUnit& unit, size_t bytes) {
  return absl::FailedPreconditionError(
      Cat("the stored time is too large for the program's type (need ",
          8 * bytes, " bits, found ", count, " times ", UnitText(unit), ")"));
}

// --- Random handlers ---

std::string StreamText(void (*write)(std::ostream&, const void*),
                       const void* object) {
  std::ostringstream out;
  out.imbue(std::locale::classic());  // the program's locale may group digits
  write(out, object);
  return out.str();
}

Status ReadStreamText(const std::string& text,
                      void (*read)(std::istream&, void*), void* object) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  read(in, object);
  if (!in.fail() && (in >> std::ws).eof()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the stored state does not fit this random engine, or another standard "
      "library wrote it: restore it with the engine and library that saved it, "
      "or leave it out and seed the engine");
}

}  // namespace belay::standard
