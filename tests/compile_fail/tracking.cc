// What is tracked has to outlast the call. Case 0 has to compile; each other
// one has to be refused with the text behind it.
#include <array>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "belay/arrays/tensor.h"
#include "belay/checkpoint.h"
#include "belay/objects/trackable.h"
#include "belay/sharded_variable.h"
#include "belay/state.h"

namespace {

struct Model {
  void Track(belay::Tracker&) {}
};

// A range that is no view, and may go while its elements stay.
struct Window {
  float* begin() const { return elements; }
  float* end() const { return elements + 3; }
  float* elements = nullptr;
};

belay::Tensor MakeTensor() { return belay::Tensor(belay::DType::kF32, {2, 2}); }

}  // namespace

template <>
inline constexpr bool std::ranges::enable_borrowed_range<Window> = true;

void Compiles(belay::Tracker& tracker, const belay::Layout& layout) {
  using belay::TrackedValue;
  std::vector<float> list(3);
  std::array<float, 3> array = {};
  std::string text;
  Model model;
  belay::Tensor tensor = MakeTensor();
  tracker.Value("list", list);
  tracker.Value("array", array);
  tracker.Value("text", text);
  tracker.Value("tensor", tensor);
  tracker.Value("leaf", TrackedValue({3}, list));
  tracker.Value("span", std::span<float>(list));
  tracker.Value("window", Window{list.data()});
  tracker.Value("subrange", std::ranges::subrange(list.begin(), list.end()));
  tracker.Value("shaped", {3}, belay::AtAddress(list.data()));
  tracker.Value("cut", layout, {3}, std::span<float>(list));
  tracker.Child("list", list);
  tracker.Child("model", model);
  tracker.Child("pointer", &model);
  tracker.Child("span", std::span<float>(list));
  tracker.Child("window", Window{list.data()});
  tracker.Child("leaf",
                TrackedValue({3}, {{0}, {3}}, belay::AtAddress(list.data())));
  const std::vector<float> fixed(3);
  const double number = 1;
  const Model unchanging;
  tracker.Value("const list", fixed);
  tracker.Value("const number", number);
  tracker.Value("const text", std::as_const(text));
  tracker.Value("const tensor", std::as_const(tensor));
  tracker.Value("const span", std::span<const float>(list));
  tracker.Value("const pieces", {3},
                belay::AtAddress(std::as_const(list).data()));
  tracker.Value("const pieces", {3}, [&] { return std::span(list); });
  std::span<float> named(list);  // it is asked for anew for each save
  tracker.Value("named span", named);
  tracker.Value("const model", unchanging);  // needs a handler, as any class
  tracker.Child("const list", fixed);
}

// What a State takes: values, and pointers to what is no number.
void Adds(Model& model, belay::Tensor& tensor) {
  belay::State state;
  std::vector<float> list(3);
  float array[3] = {};
  int number = 1;
  const double fixed = 2;
  state.Add("list", list);
  state.Add("pointer", &list);
  state.Add("array", array);
  state.Add("span", std::span<float>(list));
  state.Add("number", number);
  state.Add("fixed", fixed);
  state.Add("tensor", tensor);
  state.Add("model", model);
  state.AddPerRank("numbers", number);
  state.AddPerRank("arrays", array);
  state.AddPerRank("spans", std::span<const float>(list));
  state.AddPiece("function", {3}, {{0}, {3}}, [&] { return std::span(list); });
  state.AddPiece("ghosts", {1}, {{0}, {1}},
                 {[&] { return std::span(list); }, {.before = {1}}});
  state.AddPiece("address", {3}, {{0}, {3}}, belay::AtAddress(list.data()));
  state.AddPiece("bytes", {3}, {{0}, {3}},
                 belay::AtAddress(list.data(), belay::DType::kF32));
}

// A Checkpoint of nothing, and of some.
void Checkpoints(const belay::Comm& comm, Model& model) {
  belay::Checkpoint nothing(comm, {});
  belay::Checkpoint rooted(comm, model, {});
  belay::Checkpoint some(comm, {{"model", model}});
}

void IsRefused(belay::Tracker& tracker, const belay::Layout& layout) {
  using belay::TrackedValue;
  std::vector<float> list(3);
#if CASE == 1  // belay borrows what it tracks: a temporary
  tracker.Value("x", std::vector<float>(3));
#elif CASE == 2   // belay borrows what it tracks: a temporary
  tracker.Value("x", std::string("abc"));
#elif CASE == 3   // belay borrows what it tracks: a temporary
  tracker.Value("x", MakeTensor());
#elif CASE == 4   // belay borrows what it tracks: a temporary
  tracker.Value("x", 5.0F);
#elif CASE == 5   // belay borrows what it tracks: a temporary
  tracker.Value("x", {3}, std::vector<float>(3));
#elif CASE == 6   // belay borrows what it tracks: a temporary
  tracker.Value("x", TrackedValue(std::vector<float>(3)));
#elif CASE == 7   // belay borrows what it tracks: a temporary
  tracker.Value("x",
                TrackedValue({3}, {{0}, {1}}, belay::AtAddress(list.data()))
                    .AddPiece({{1}, {2}}, std::vector<float>(2)));
#elif CASE == 8   // belay borrows what it tracks: a temporary
  tracker.Value("x", std::views::single(1.0F));
#elif CASE == 9   // belay borrows what it tracks: a temporary
  tracker.Child("x", std::vector<float>(3));
#elif CASE == 10  // belay borrows what it tracks: a temporary
  tracker.Child("x", std::views::single(1.0F));
#elif CASE == 11  // belay borrows what it tracks: a temporary
  tracker.Child("x", Model());
#elif CASE == 12  // belay borrows what it tracks: a temporary pointer
  tracker.Child("x", std::make_unique<Model>());
#elif CASE == 13  // belay borrows what it tracks: a temporary
  tracker.Slot("m", list, std::vector<float>(3));
#elif CASE == 14  // belay has no value of this type
  tracker.Value("x", std::vector<bool>(3));
#elif CASE == 15  // it stores numbers of at most 8 bytes
  long double wide = 0;
  tracker.Value("x", wide);
#elif CASE == 16  // belay borrows what it tracks: a temporary
  std::vector<Model> models(3);
  tracker.Child("x", std::span<Model>(models));
#endif
  Compiles(tracker, layout);
}

// What has no DType, or would be another value than it seems.
void IsNoValue(belay::Tracker& tracker) {
#if CASE == 17  // belay has no DType for this C++ type
  long double number = 1;
  belay::State().Add("x", number);
#elif CASE == 18  // belay has no DType for this C++ type
  long double number = 1;
  tracker.Value("x", number);
#elif CASE == 19  // belay has no DType for this C++ type
  long double number = 1;
  tracker.Child("x", number);
#elif CASE == 20  // belay::Memory
  long double numbers[3] = {};
  belay::State().AddReplicated("x", {3}, numbers);
#elif CASE == 21  // belay stores numbers and class objects, not pointers
  float* pointer = nullptr;
  belay::State().Add("x", &pointer);
#elif CASE == 22  // belay would store the chars of this array
  belay::State().Add("x", "text");
#elif CASE == 23  // belay borrows what it tracks: a temporary
  belay::State().Add("x", std::vector<float>(3));
#elif CASE == 24  // belay borrows what it tracks: a temporary
  belay::State().AddPerRank("x", 5);
#elif CASE == 25  // belay would store one char of this pointer
  const std::string text = "text";
  belay::State().Add("x", text.c_str());
#elif CASE == 26  // belay would store one char of this pointer
  std::string text = "text";
  belay::State().AddPerRank("x", text.data());
#elif CASE == 27  // a pointer adds one number, however many lie behind it
  std::vector<float> list(3);
  belay::State().Add("x", list.data());
#elif CASE == 28  // a pointer adds one number, however many lie behind it
  std::vector<float> list(3);
  belay::State().AddPerRank("x", list.data());
#endif
  (void)tracker;
}

// What may lie elsewhere when it is saved.
void IsNoMemory(belay::Tracker& tracker) {
#if CASE == 29  // belay would keep this address
  std::vector<float> list(3);
  belay::State().AddPiece("x", {3}, {{0}, {3}}, list.data());
#elif CASE == 30  // belay would keep this address
  float* pointer = nullptr;
  belay::State().AddPiece("x", {3}, {{0}, {3}}, {pointer, {.before = {1}}});
#elif CASE == 31  // belay would keep this address
  const float* pointer = nullptr;
  tracker.Value("x", {3}, pointer);
#elif CASE == 32  // belay would keep the elements that this view shows now
  std::vector<float> list(3);
  std::span<float> view(list);
  belay::State().AddReplicated("x", {3}, view);
#elif CASE == 33  // belay would keep the elements that this view shows now
  std::vector<float> list(3);
  const std::span<float> view(list);
  belay::State().Add("x", view);
#elif CASE == 34  // belay would keep the elements that this view shows now
  std::vector<float> list(3);
  std::span<float> view(list);
  belay::State().AddRows("x", view);
#elif CASE == 35  // belay would keep the elements that this view shows now
  std::vector<float> list(3);
  std::span<float> view(list);
  belay::State().AddPerRank("x", view);
#elif CASE == 36  // belay would keep the elements that this view shows now
  std::vector<float> list(3);
  std::vector<int> ids(3);
  std::span<float> view(list);
  belay::State().AddRowsById("x", ids, view);
#elif CASE == 37  // belay borrows what the function returns
  belay::State().AddReplicated("x", {3}, [] { return std::vector<float>(3); });
#elif CASE > 28
#error "no such case"
#endif
  (void)tracker;
}
