#include "plan/chunks.h"

#include <charconv>
#include <iterator>
#include <limits>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "core/element_conversion.h"
#include "core/integers.h"
#include "core/option_table.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"

namespace belay {
namespace {

// Registered filter numbers; HDF5's own are below 256.
constexpr int kDeflate = 1;
constexpr int kShuffle = 2;
constexpr int kFletcher32 = 3;
constexpr int kScaleOffset = 6;  // the last of HDF5's own
constexpr int kMaxId = 65535;
// HDF5 allows 32 filters. No registered filter has 64 parameters.
constexpr size_t kMaxFilters = 32;
constexpr size_t kMaxParameters = 64;

std::string Joined(const std::vector<uint32_t>& numbers) {
  return absl::StrJoin(numbers, ",");
}

std::string FilterName(int id) {
  constexpr std::string_view kNames[] = {
      "", "deflate", "shuffle", "fletcher32", "szip", "nbit", "scaleoffset"};
  const bool is_own = id > 0 && id < static_cast<int>(std::size(kNames));
  return is_own ? std::string(kNames[id]) : Cat("filter ", id);
}

template <typename T>
bool TakeNumber(std::string_view& text, T& number) {
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(next - text.data()));
  return true;
}

bool Take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// Takes a filter such as "2(4,5)" off the front.
bool TakeFilter(std::string_view& text, Filter& filter) {
  if (!TakeNumber(text, filter.id) || !Take(text, '(')) return false;
  while (!Take(text, ')')) {
    if (!filter.parameters.empty() && !Take(text, ',')) return false;
    if (!TakeNumber(text, filter.parameters.emplace_back())) return false;
  }
  return true;
}

template <typename... Parts>
Status InvalidFilters(const Parts&... cause) {
  return absl::InvalidArgumentError(Cat(cause...));
}

// Checks the limits of stored filters.
Status CheckNumbers(const std::vector<Filter>& filters) {
  if (filters.size() > kMaxFilters) {
    return InvalidFilters("too many filters (need at most ", kMaxFilters,
                          ", found ", filters.size(), ")");
  }
  for (const Filter& filter : filters) {
    const size_t num_parameters = filter.parameters.size();
    if (filter.id < 1 || filter.id > kMaxId) {
      return InvalidFilters("not the number of a filter (need 1 to ", kMaxId,
                            ", found ", filter.id, ")");
    }
    if (num_parameters > kMaxParameters) {
      return InvalidFilters("filter ", filter.id,
                            " has too many parameters (need at most ",
                            kMaxParameters, ", found ", num_parameters, ")");
    }
    const bool has_level = num_parameters == 1 && filter.parameters[0] <= 9;
    if (filter.id == kDeflate && !has_level) {
      return InvalidFilters(
          "filter 1, deflate, needs one level from 0 to 9 (found ",
          FiltersText({filter}), ")");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Filter> Deflate(int level) {
  // HDF5 sets the element size of the shuffle filter.
  return {{.id = kShuffle}, {kDeflate, {static_cast<uint32_t>(level)}}};
}

Status CheckFilters(const std::vector<Filter>& filters) {
  BELAY_RETURN_IF_ERROR(CheckNumbers(filters));
  for (const Filter& filter : filters) {
    if (filter.id > kFletcher32 && filter.id <= kScaleOffset) {
      return InvalidFilters("filter ", filter.id, ", ", FilterName(filter.id),
                            ", is not for checkpoints: HDF5 sets it up by "
                            "calls of its own (need another filter)");
    }
  }
  // A reader rejects bytes that were deflated twice, and does not undo repeated
  // shuffles.
  for (const int id : {kDeflate, kShuffle, kFletcher32}) {
    const auto found = std::ranges::count(filters, id, &Filter::id);
    if (found <= 1) continue;
    return InvalidFilters("filter ", id, ", ", FilterName(id),
                          ", is given several times (need at most 1, found ",
                          found, ")");
  }
  return absl::OkStatus();
}

bool AreLossless(const std::vector<Filter>& filters) {
  return std::all_of(filters.begin(), filters.end(), [](const Filter& filter) {
    return filter.id <= kFletcher32;
  });
}

std::string FiltersText(const std::vector<Filter>& filters) {
  std::string text;
  for (const Filter& filter : filters) {
    text += Cat(text.empty() ? "" : ",", filter.id, "(",
                Joined(filter.parameters), ")");
  }
  return text;
}

std::string DescribeFilters(const std::vector<Filter>& filters) {
  std::string text;
  for (const Filter& filter : filters) {
    text += Cat(text.empty() ? "" : ", ", FilterName(filter.id));
    if (filter.parameters.empty()) continue;
    text += Cat("(", Joined(filter.parameters), ")");
  }
  return text;
}

StatusOr<std::vector<Filter>> ParseFilters(std::string_view text) {
  std::vector<Filter> filters;
  std::string_view rest = text;
  bool is_text = true;
  while (!rest.empty() && is_text) {
    is_text = filters.empty() || Take(rest, ',');
    is_text = is_text && TakeFilter(rest, filters.emplace_back());
  }
  if (is_text && CheckNumbers(filters).ok()) return filters;
  return absl::DataLossError(absl::StrFormat("\"%s\" names no filters",
                                             absl::CEscape(AbslView(text))));
}

// --- Chunks ---

namespace {

template <typename Number>
void MovePrime(Number prime, Number& rest, PrimePowers& powers) {
  int exponent = 0;
  for (; rest % prime == 0; rest /= prime) ++exponent;
  if (exponent > 0) powers.push_back({static_cast<int64_t>(prime), exponent});
}

// A template because 32-bit divisions take a third of the time of 64-bit ones.
template <typename Number>
PrimePowers FindPowers(Number rest) {
  PrimePowers powers;
  MovePrime<Number>(2, rest, powers);
  MovePrime<Number>(3, rest, powers);
  // All other primes are next to a multiple of 6.
  for (Number six = 6; six - 1 <= kLargestSearchedPrime &&
                       uint64_t{six - 1} * (six - 1) <= rest;
       six += 6) {
    MovePrime<Number>(six - 1, rest, powers);
    MovePrime<Number>(six + 1, rest, powers);
  }
  if (rest > 1) powers.push_back({static_cast<int64_t>(rest), 1});
  return powers;
}

}  // namespace

PrimePowers Factorize(int64_t number) {
  return number <= int64_t{UINT32_MAX}
             ? FindPowers(static_cast<uint32_t>(number))
             : FindPowers(static_cast<uint64_t>(number));
}

void MultiplyBy(absl::Span<const PrimePower> factors, PrimePowers& powers) {
  for (const PrimePower& factor : factors) {
    const auto same = std::find_if(
        powers.begin(), powers.end(),
        [&](const PrimePower& power) { return power.prime == factor.prime; });
    if (same == powers.end()) {
      powers.push_back(factor);
    } else {
      same->exponent += factor.exponent;
    }
  }
}

DivisorList DivisorsUpTo(int64_t limit, absl::Span<const PrimePower> powers) {
  DivisorList divisors = {1};
  for (const PrimePower& power : powers) {
    const int64_t limit_before = limit / power.prime;
    size_t begin = 0;  // first divisor with one factor `prime` less
    for (int exponent = 0; exponent < power.exponent; ++exponent) {
      const size_t end = divisors.size();
      for (size_t i = begin; i < end; ++i) {
        if (divisors[i] > limit_before) continue;
        divisors.push_back(divisors[i] * power.prime);
      }
      begin = end;
    }
  }
  return divisors;
}

int64_t LargestDivisorUpTo(int64_t limit, absl::Span<const PrimePower> powers) {
  const DivisorList divisors = DivisorsUpTo(limit, powers);
  return *std::max_element(divisors.begin(), divisors.end());
}

DivisorList Divisors(int64_t number) {
  DivisorList divisors = DivisorsUpTo(number, Factorize(number));
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

// --- Chunk shape by size ---

namespace {

using Axes = absl::InlinedVector<size_t, 4>;

Shape WithoutEmptyAxes(Shape shape) {
  for (int64_t& length : shape) length = std::max<int64_t>(length, 1);
  return shape;
}

// Returns the chunk of a request without a size limit: the shard, with length 1
// on the shard_axes and on axes without elements.
Shape LargestChunk(const ChunkRequest& request) {
  Shape chunk = WithoutEmptyAxes(request.shard_shape);
  for (const int axis : request.shard_axes) chunk[axis] = 1;
  return chunk;
}

bool IsCut(const ChunkRequest& request, size_t axis) {
  return request.global_shape[axis] != request.shard_shape[axis];
}

// Divisors of each axis, ascending; the last divisors are the chunk's shape.
using AxisDivisors = std::vector<DivisorList>;

// Returns the first of the longest axes, or `none` if all have length 1.
size_t LongestAxis(const AxisDivisors& divisors, const Axes& axes,
                   size_t none) {
  size_t longest = none;
  int64_t length = 1;
  for (const size_t axis : axes) {
    if (divisors[axis].back() <= length) continue;
    longest = axis;
    length = divisors[axis].back();
  }
  return longest;
}

// The shape of the largest chunk, and the prime powers of its lengths.
struct Lengths {
  explicit Lengths(const Shape& largest) : shape(largest) {
    for (const int64_t length : shape) powers.push_back(Factorize(length));
  }

  Shape shape;
  absl::InlinedVector<PrimePowers, 4> powers;
};

// Returns the largest chunk that divides `lengths` and has at most `limit`
// elements. The largest divisor of the number of elements within the limit is a
// product of divisors of the lengths. Each axis, starting with the last, gets
// the greatest common divisor of its length and the rest of that product.
Shape DividingChunk(const Lengths& lengths, int64_t limit) {
  PrimePowers all;
  for (const PrimePowers& powers : lengths.powers) MultiplyBy(powers, all);
  int64_t rest = LargestDivisorUpTo(limit, all);
  Shape chunk = lengths.shape;
  for (size_t axis = chunk.size(); axis-- > 0;) {
    chunk[axis] = std::gcd(chunk[axis], rest);
    rest /= chunk[axis];
  }
  return chunk;
}

// Returns the length of the pieces if `length` is cut into the fewest pieces of
// at most `limit`, with the last one nearly as long as the others. It exceeds
// half of `limit` if `length` does.
int64_t NearlyEqualLength(int64_t length, int64_t limit) {
  const int64_t pieces = (length - 1) / limit + 1;
  return (length - 1) / pieces + 1;
}

// Gives each axis, in this order, the largest length that the remaining limit
// allows. The first `num_dividing` axes get only divisors.
Shape FilledChunk(const Lengths& lengths, const Axes& order,
                  size_t num_dividing, int64_t limit) {
  Shape chunk = lengths.shape;
  for (size_t i = 0; i < order.size(); ++i) {
    int64_t& length = chunk[order[i]];
    if (length > limit) {
      length = i < num_dividing
                   ? LargestDivisorUpTo(limit, lengths.powers[order[i]])
                   : NearlyEqualLength(length, limit);
    }
    limit /= length;
  }
  return chunk;
}

bool HasHalf(const Shape& chunk, int64_t limit) {
  return NumElements(chunk) >= limit - NumElements(chunk);
}

}  // namespace

StatusOr<Shape> GreedyChunkShape(const ChunkRequest& request) {
  BELAY_ASSIGN_OR_RETURN(const int64_t limit, MaxChunkElements(request));
  Shape chunk = LargestChunk(request);
  const size_t ndim = chunk.size();
  if (HasAtMost(limit, chunk)) return chunk;
  AxisDivisors divisors;
  for (const int64_t length : chunk) divisors.push_back(Divisors(length));
  Axes all(ndim), open;
  std::iota(all.begin(), all.end(), 0);
  std::copy_if(all.begin(), all.end(), std::back_inserter(open),
               [&](size_t axis) { return IsCut(request, axis); });
  while (!HasAtMost(limit, chunk)) {
    const size_t axis = LongestAxis(divisors, open, ndim);
    if (axis == ndim) {
      open = all;  // the axes cut between shards have length 1
      continue;
    }
    divisors[axis].pop_back();
    chunk[axis] = divisors[axis].back();
  }
  return chunk;
}

StatusOr<Shape> ExactChunkShape(const ChunkRequest& request) {
  BELAY_ASSIGN_OR_RETURN(const int64_t limit, MaxChunkElements(request));
  const Shape largest = LargestChunk(request);
  if (HasAtMost(limit, largest)) return largest;
  const Lengths lengths(largest);
  Shape dividing = DividingChunk(lengths, limit);
  if (HasHalf(dividing, limit)) return dividing;
  Axes order(largest.size());
  std::iota(order.rbegin(), order.rend(), 0);
  Axes cut_first = order;
  const auto cut_end =
      std::stable_partition(cut_first.begin(), cut_first.end(),
                            [&](size_t axis) { return IsCut(request, axis); });
  const auto num_cut = static_cast<size_t>(cut_end - cut_first.begin());
  Shape one_writer = FilledChunk(lengths, cut_first, num_cut, limit);
  if (HasHalf(one_writer, limit)) return one_writer;
  return FilledChunk(lengths, order, 0, limit);
}

// --- Default chunks ---

namespace {

bool IsGridCell(const Box& box, const Shape& shape, const Shape& chunk) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (box.offset[i] % chunk[i] != 0) return false;
    if (box.shape[i] != std::min(chunk[i], shape[i] - box.offset[i])) {
      return false;
    }
  }
  return true;
}

bool HasShortRuns(const Box& box, const Shape& shape, int64_t element_size) {
  const int64_t runs = CountRuns(box, box, WholeBox(shape));
  return runs > 1 &&
         NumElements(box.shape) / runs * element_size < kLongRunBytes;
}

}  // namespace

Shape CellShape(const Shape& shape, const std::vector<const Box*>& boxes) {
  if (boxes.empty()) return {};
  const Shape& cell = boxes[0]->shape;
  const bool is_grid = std::all_of(
      boxes.begin(), boxes.end(),
      [&](const Box* box) { return IsGridCell(*box, shape, cell); });
  return is_grid ? cell : Shape{};
}

Shape ChooseChunkShape(const Shape& shape, int64_t element_size,
                       const std::vector<const Box*>& boxes) {
  if (boxes.size() < 2) return {};
  const Shape cell = CellShape(shape, boxes);
  if (NumElements(cell) > kMaxChunkBytes / element_size) return {};
  const bool short_runs = std::any_of(
      boxes.begin(), boxes.end(),
      [&](const Box* box) { return HasShortRuns(*box, shape, element_size); });
  return short_runs ? cell : Shape{};
}

Status ChunkCount::Add(std::string_view key, const Shape& shape,
                       const Shape& chunk, int64_t element_size) {
  constexpr int64_t kOfDataset = int64_t{1} << 20;
  constexpr int64_t kOfCheckpoint = int64_t{1} << 24;
  constexpr int64_t kBytesOfMore = 64 << 10;
  if (chunk.empty()) return absl::OkStatus();
  int64_t count = 1;
  for (size_t i = 0; i < chunk.size(); ++i) {
    count *= CeilDivide(shape[i], chunk[i]);
  }
  const int64_t more = NumElements(shape) * element_size / kBytesOfMore;
  more_ += std::min(more, INT64_MAX / 2 - more_);
  const int64_t most =
      std::min(kOfDataset + more, kOfCheckpoint + more_ - chunks_);
  if (count > most) {
    return absl::ResourceExhaustedError(Cat(
        operation_, ": key \"", key,
        "\": there are too many chunks; save it in larger ones (need at most ",
        most, ", found ", count, ", and ", chunks_, " before)"));
  }
  chunks_ += count;
  return absl::OkStatus();
}

// --- Chunk request ---

namespace {

template <typename... Parts>
Status Error(const ChunkRequest& request, const Parts&... cause) {
  return absl::InvalidArgumentError(
      Cat("choose chunks \"", request.key, "\": ", cause...));
}

Status CheckNumAxes(const ChunkRequest& request, std::string_view what,
                    const Shape& shape) {
  const size_t need = request.global_shape.size();
  if (shape.size() == need) return absl::OkStatus();
  return Error(request, "the ", what, " has the wrong number of axes (need ",
               need, ", found ", shape.size(), ")");
}

Status CheckArray(const ChunkRequest& request) {
  const StatusOr<int64_t> count = CheckedNumElements(request.global_shape);
  if (!count.ok()) return Error(request, count.status().message());
  if (request.element_size < 1 || request.element_size > kMaxChunkBytes) {
    return Error(request, "the element size is out of range (need 1 to ",
                 kMaxChunkBytes, " bytes, found ", request.element_size, ")");
  }
  const int64_t most_elements =
      std::numeric_limits<int64_t>::max() / request.element_size;
  if (*count > most_elements) {
    return Error(request, "the array is too large (need at most ",
                 most_elements, " elements of ", request.element_size,
                 " bytes, found ", *count, ")");
  }
  BELAY_RETURN_IF_ERROR(
      CheckNumAxes(request, "shard shape", request.shard_shape));
  // Also finds negative lengths, and shards with too many elements.
  for (size_t axis = 0; axis < request.shard_shape.size(); ++axis) {
    const int64_t most = request.global_shape[axis];
    const int64_t found = request.shard_shape[axis];
    if (found >= 0 && found <= most) continue;
    return Error(request, "the shard does not fit axis ", axis, " of ",
                 ShapeText(request.global_shape), " (need 0 to ", most,
                 ", found ", found, ")");
  }
  return absl::OkStatus();
}

Status CheckDivides(const ChunkRequest& request, std::string_view what,
                    const Shape& part, std::string_view of_what,
                    const Shape& whole) {
  BELAY_RETURN_IF_ERROR(CheckNumAxes(request, what, part));
  for (size_t axis = 0; axis < part.size(); ++axis) {
    if (part[axis] > 0 && whole[axis] % part[axis] == 0) continue;
    return Error(request, "the ", what, " ", ShapeText(part),
                 " does not divide the ", of_what, " ", ShapeText(whole),
                 " along axis ", axis, " (need a divisor of ", whole[axis],
                 ", found ", part[axis], ")");
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<ChunkShapes> GivenChunkShapes(const ChunkRequest& request,
                                       const std::optional<Shape>& write,
                                       const std::optional<Shape>& read) {
  BELAY_RETURN_IF_ERROR(CheckArray(request));
  if (request.chunk_byte_size != 0 || !request.shard_axes.empty()) {
    return Error(request,
                 "write_chunk_shape and read_chunk_shape give a chunk, "
                 "chunk_byte_size and shard_axes choose one: use either");
  }
  if (write.has_value()) {
    BELAY_RETURN_IF_ERROR(CheckDivides(request, "write chunk", *write, "shard",
                                       request.shard_shape));
  }
  if (read.has_value()) {
    BELAY_RETURN_IF_ERROR(CheckDivides(request, "read chunk", *read,
                                       "write chunk",
                                       write.value_or(request.shard_shape)));
  }
  ChunkShapes shapes;
  shapes.write = write.value_or(WithoutEmptyAxes(request.shard_shape));
  shapes.read = read.value_or(shapes.write);
  const int64_t most = kMaxChunkBytes / request.element_size;
  if (HasAtMost(most, shapes.read)) return shapes;
  return Error(request, "the read chunk ", ShapeText(shapes.read),
               " is too large (need at most ", most, " elements of ",
               request.element_size, " bytes)");
}

StatusOr<int64_t> MaxChunkElements(const ChunkRequest& request) {
  BELAY_RETURN_IF_ERROR(CheckArray(request));
  const auto num_axes = static_cast<int>(request.shard_shape.size());
  for (const int axis : request.shard_axes) {
    if (axis >= 0 && axis < num_axes) continue;
    return Error(request, "shard_axes names no axis of ",
                 ShapeText(request.shard_shape), " (need below ", num_axes,
                 ", found ", axis, ")");
  }
  const int64_t bytes = request.chunk_byte_size;
  if (bytes == 0) return kMaxChunkBytes / request.element_size;
  if (bytes < request.element_size) {
    return Error(request,
                 "chunk_byte_size is below one element (need 0 or at least ",
                 request.element_size, " bytes, found ", bytes, ")");
  }
  return std::min(bytes, kMaxChunkBytes) / request.element_size;
}

bool HasAtMost(int64_t limit, const Shape& shape) {
  for (const int64_t length : shape) limit /= length;
  return limit > 0;
}

// --- Arguments of values ---

namespace {

Status CheckNumbers(const SaveArgsFor& one) {
  const auto dtype = static_cast<uint8_t>(one.args.dtype.value_or(DType::kU8));
  if (!IsKnownDType(dtype)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("arguments for \"%s\": unknown dtype (found number %d)",
                        one.keys, static_cast<int>(dtype)));
  }
  if (one.args.chooser > ChunkChooser::kGreedy) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "arguments for \"%s\": the chooser is out of range (need 0 to %d, "
        "found %d)",
        one.keys, static_cast<int>(ChunkChooser::kGreedy),
        static_cast<int>(one.args.chooser)));
  }
  const Status filters = CheckFilters(one.args.filters);
  if (filters.ok()) return filters;
  return absl::InvalidArgumentError(
      absl::StrFormat("arguments for \"%s\": %s", one.keys, filters.message()));
}

// Returns whether the expression is the key itself, escaped or not.
bool NamesKey(std::string_view key, std::string_view expression) {
  size_t at = 0;
  for (const char c : key) {
    const bool is_escaped = expression.substr(at).starts_with('\\') &&
                            expression.substr(at + 1).starts_with(c) &&
                            !absl::ascii_isalnum(static_cast<uint8_t>(c));
    if (is_escaped) ++at;
    if (!expression.substr(at).starts_with(c)) return false;
    ++at;
  }
  return at == expression.size();
}

Shape Smaller(const Shape& a, const Shape& b) {
  Shape shape = a;
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = std::min(a[i], b[i]);
  return shape;
}

bool IsGiven(const SaveArgs& args) {
  return args.write_chunk_shape.has_value() ||
         args.read_chunk_shape.has_value();
}

bool AskForChunks(const SaveArgs& args) {
  return IsGiven(args) || args.chunk_byte_size != 0 ||
         !args.shard_axes.empty() || !args.filters.empty();
}

// Reading any part of a filtered chunk decodes all of it. Unless a size is
// requested, filtered chunks fit into HDF5's chunk cache.
constexpr int64_t kFilteredChunkBytes = int64_t{1} << 20;

int64_t ChunkBytes(const SaveArgs& args) {
  SaveArgs others = args;
  others.filters.clear();
  return AskForChunks(others) ? args.chunk_byte_size : kFilteredChunkBytes;
}

struct Asked {
  const SaveArgs& args;
  ChunkRequest request;
};

// Returns the chunk for a whole shard.
StatusOr<Shape> ChooseChunk(const Asked& asked) {
  const SaveArgs& args = asked.args;
  if (IsGiven(args)) {
    BELAY_ASSIGN_OR_RETURN(
        ChunkShapes shapes,
        GivenChunkShapes(asked.request, args.write_chunk_shape,
                         args.read_chunk_shape));
    return std::move(shapes.read);
  }
  return args.chooser == ChunkChooser::kGreedy ? GreedyChunkShape(asked.request)
                                               : ExactChunkShape(asked.request);
}

// Returns the chunk for a dataset that may hold less than a shard. A given
// chunk is clipped to the dataset. Otherwise a chunk is chosen for the dataset.
StatusOr<Shape> ChooseChunk(const Asked& asked, const Shape& chunk,
                            const Shape& dataset) {
  if (IsGiven(asked.args)) return Smaller(chunk, dataset);
  Asked smaller = asked;
  smaller.request.shard_shape = Smaller(asked.request.shard_shape, dataset);
  if (smaller.request.shard_shape == asked.request.shard_shape) return chunk;
  return ChooseChunk(smaller);
}

// Treats each struct as one element, so that chunks do not cut structs.
void TakeStructs(const SaveArgs& args, ChunkRequest& request) {
  request.element_size = request.global_shape.back();
  // Raises a default limit to the size of one struct.
  if (args.chunk_byte_size == 0 && request.chunk_byte_size > 0) {
    request.chunk_byte_size =
        std::max(request.chunk_byte_size, request.element_size);
  }
  request.global_shape.pop_back();
  request.shard_shape.pop_back();
}

// Returns the arguments that differ from the defaults, as text.
std::string ArgsText(const SaveArgs& args) {
  std::vector<std::string> parts;
  if (args.dtype) parts.push_back(Cat("dtype=", DTypeName(*args.dtype)));
  if (args.write_chunk_shape) {
    parts.push_back(
        Cat("write_chunk_shape=", ShapeText(*args.write_chunk_shape)));
  }
  if (args.read_chunk_shape) {
    parts.push_back(
        Cat("read_chunk_shape=", ShapeText(*args.read_chunk_shape)));
  }
  if (args.chunk_byte_size != 0) {
    parts.push_back(Cat("chunk_byte_size=", args.chunk_byte_size));
  }
  if (args.chooser == ChunkChooser::kGreedy) parts.push_back("chooser=greedy");
  if (!args.shard_axes.empty()) {
    parts.push_back(
        Cat("shard_axes=[", absl::StrJoin(args.shard_axes, ", "), "]"));
  }
  if (!args.filters.empty()) {
    parts.push_back(Cat("filters=[", DescribeFilters(args.filters), "]"));
  }
  if (args.primary_replica) {
    parts.push_back(Cat("primary_replica=", *args.primary_replica));
  }
  return absl::StrJoin(parts, " ");
}

Status CheckLayout(ArrayLayout layout, const std::string& key) {
  if (layout != ArrayLayout::kCanonical) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("choose chunks \"", key,
          "\": ", OptionSetting(&SaveOptions::array_layout, layout),
          " stores every array contiguously: use ",
          ValueInProgram(ArrayLayout::kAuto)));
}

}  // namespace

StatusOr<ArgsByKey> CompileArgs(const std::vector<SaveArgsFor>& args) {
  ArgsByKey by_key;
  for (const SaveArgsFor& one : args) {
    BELAY_RETURN_IF_ERROR(CheckNumbers(one));
    by_key.args.push_back(one.args);
    by_key.keys.push_back(one.keys);
  }
  BELAY_ASSIGN_OR_RETURN(by_key.patterns, KeyPatterns::CompileKeys(args));
  return by_key;
}

const SaveArgs& FindArgs(const ArgsByKey& args, std::string_view key) {
  static const SaveArgs kDefaults;
  const int place = args.patterns.Find(key);
  return place < 0 ? kDefaults : args.args[static_cast<size_t>(place)];
}

StatusOr<DType> DTypeToStore(const ArgsByKey& args, DType f32_dtype,
                             std::string_view key, DType dtype) {
  DType to = dtype == DType::kF32 ? f32_dtype : dtype;
  const int place = args.patterns.Find(key);
  if (place >= 0) {
    const auto i = static_cast<size_t>(place);
    const std::optional<DType> named = args.args[i].dtype;
    // A pattern is meant for weights, not for counters, ids and flags that also
    // match it.
    const bool is_meant = named && (NamesKey(key, args.keys[i]) ||
                                    FindKind(*named) == FindKind(dtype));
    if (is_meant) to = *named;
  }
  if (IsConvertible(dtype, to)) return to;
  return absl::InvalidArgumentError(
      Cat("store \"", key, "\": ", DTypeName(dtype),
          " does not convert to the dtype that its arguments name (found ",
          DTypeName(to), ")"));
}

Status ChunkAsAsked(const std::vector<SaveArgsFor>& args, ArrayLayout layout,
                    const std::vector<ArrayBoxes>& arrays, SavePlan& plan) {
  if (args.empty()) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const ArgsByKey by_key, CompileArgs(args));
  std::vector<std::string_view> keys;
  for (const StoredArray& array : plan.arrays) keys.push_back(array.key);
  BELAY_RETURN_IF_ERROR(by_key.patterns.CheckAllMatch(
      keys, Cat("plan the save: ", OptionName(&SaveOptions::args))));
  std::vector<std::vector<StoredDataset*>> datasets(plan.arrays.size());
  for (StoredDataset& dataset : plan.datasets) {
    datasets[dataset.array].push_back(&dataset);
  }
  for (const ArrayBoxes& boxes : arrays) {
    StoredArray& array = plan.arrays[boxes.array];
    const SaveArgs& own = FindArgs(by_key, array.key);
    array.args = ArgsText(own);
    if (!AskForChunks(own) || array.dtype == DType::kString) continue;
    BELAY_RETURN_IF_ERROR(CheckLayout(layout, array.key));
    const Shape cell = CellShape(array.shape, GetBoxes(boxes.boxes));
    Asked asked{.args = own,
                .request = {.key = array.key,
                            .global_shape = array.shape,
                            .shard_shape = cell.empty() ? array.shape : cell,
                            .element_size = boxes.element_size,
                            .chunk_byte_size = ChunkBytes(own),
                            .shard_axes = own.shard_axes}};
    const bool has_structs = !array.fields.empty();
    if (has_structs) TakeStructs(own, asked.request);
    BELAY_ASSIGN_OR_RETURN(const Shape chunk, ChooseChunk(asked));
    for (StoredDataset* dataset : datasets[boxes.array]) {
      BELAY_ASSIGN_OR_RETURN(dataset->chunk,
                             ChooseChunk(asked, chunk, dataset->box.shape));
      const bool is_chunked = !dataset->chunk.empty();
      if (has_structs && is_chunked)
        dataset->chunk.push_back(array.shape.back());
      if (!dataset->chunk.empty()) dataset->filters = own.filters;
    }
  }
  return absl::OkStatus();
}

template <typename Archive>
void Fields(Archive& archive, SaveArgs& args) {
  archive(args.dtype, args.write_chunk_shape, args.read_chunk_shape,
          args.chunk_byte_size, args.chooser, args.shard_axes, args.filters,
          args.primary_replica);
}
template <typename Archive>
void Fields(Archive& archive, SaveArgsFor& one) {
  archive(one.keys, one.args);
}

std::string EncodeArgs(const std::vector<SaveArgsFor>& args) {
  return Encode(args);
}

}  // namespace belay
