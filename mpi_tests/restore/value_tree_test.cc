// Values whose C++ types the program does not know.

#include "belay/handlers/value_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "belay/values/restore_values.h"
#include "handler_testing.h"
#include "values.h"

namespace belay::value_tree_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Ok;
using testing::Polynomial;

using Dict = std::map<std::string, std::optional<double>>;

// A state of every kind of structure.
struct Program {
  double scalar = 1.5;
  std::vector<std::complex<float>> array = {{1, 2}, {3, 4}};
  std::string text = "\u03bb\n";
  std::string no_text;
  std::vector<int8_t> no_elements;
  std::optional<int> none;
  Dict no_entries;
  std::vector<Dict> no_items;
  // What keys and numbers may be in the way of paths and orders.
  Dict dict = {{"a/b", 1}, {"", 2}, {".", std::nullopt}, {"a", 3}};
  std::vector<Dict> list{12};
  std::map<std::string, std::vector<std::string>> texts = {{"t", {"x", ""}}};
  std::vector<bool> bools = {true, false, true};
  Polynomial polynomial;

  State state() {
    for (size_t i = 0; i < list.size(); ++i) {
      list[i]["i"] = static_cast<double>(i);
    }
    State state;
    state.Add("group/scalar", scalar);
    state.Add("group/inner/array", array);
    state.Add("group/inner/none", none);
    state.Add("text", text);
    state.Add("no/text", no_text);
    state.Add("no/elements", no_elements);
    state.Add("no/entries", no_entries);
    state.Add("no/items", no_items);
    state.Add("dict", dict);
    state.Add("list", list);
    state.Add("texts", texts);
    state.Add("bools", bools);
    return state;
  }
};

class ValueTreeTest : public testing::CheckpointTest {
 protected:
  void SetUp() override { Ok(Save(comm_, run(), 1, program_.state())); }

  void ExpectIsTheProgram(const ValueTree& tree) {
    const auto number = [&](const char* path) {
      const ValueTree* const found = tree.Find(path);
      EXPECT_NE(found, nullptr) << path;
      return found == nullptr ? -1 : found->tensor->values<double>()[0];
    };
    EXPECT_EQ(number("group/scalar"), 1.5);
    EXPECT_EQ(tree.Find("group")->typestr, "group");
    EXPECT_EQ(tree.Find("group/scalar")->typestr, "scalar");
    EXPECT_THAT(
        tree.Find("group/inner/array")->tensor->values<std::complex<float>>(),
        ElementsAre(std::complex<float>(1, 2), std::complex<float>(3, 4)));
    EXPECT_TRUE(tree.Find("group/inner/none")->is_none());
    EXPECT_EQ(tree.Find("text")->text, program_.text);
    EXPECT_EQ(tree.Find("no/text")->text, "");
    EXPECT_EQ(tree.Find("no/elements")->tensor->num_elements(), 0);
    EXPECT_EQ(tree.Find("no/elements")->tensor->dtype(), DType::kI8);
    EXPECT_TRUE(tree.Find("no/entries")->is_dict());
    EXPECT_TRUE(tree.Find("no/entries")->items.empty());
    EXPECT_TRUE(tree.Find("no/items")->is_list());
    EXPECT_EQ(tree.Find("dict")->items.size(), 4);
    EXPECT_EQ(number("dict/a/b"), 1);
    EXPECT_EQ(number("dict/a"), 3);
    EXPECT_TRUE(tree.Find("dict/.")->is_none());
    const std::vector<ValueTree>& list = tree.Find("list")->items;
    ASSERT_EQ(list.size(), 12);
    for (size_t i = 0; i < list.size(); ++i) {
      EXPECT_EQ(list[i].name, std::to_string(i));
      EXPECT_EQ(list[i].Find("i")->tensor->values<double>()[0], i);
    }
    EXPECT_EQ(tree.Find("texts/t")->typestr, "strings");
    EXPECT_NE(tree.Find("texts/t/bytes"), nullptr);
    EXPECT_EQ(tree.Find("bools")->typestr, "bools");
    EXPECT_THAT(tree.Find("bools")->tensor->values<bool>(),
                ElementsAre(true, false, true));
    EXPECT_EQ(tree.Find("none"), nullptr);
    EXPECT_EQ(tree.Find("dict/none/at/all"), nullptr);
  }

  Program program_;
};

TEST_F(ValueTreeTest, AWholeStep) {
  ValueTree tree = Ok(RestoreTree(comm_, run(), kLatestStep));
  ExpectIsTheProgram(tree);
  EXPECT_THAT(tree.ToString(), HasSubstr("\"scalar\"  scalar  f64 []\n"));
  EXPECT_THAT(tree.ToString(), HasSubstr("\"text\"  string  \"\u03bb\\n\"\n"));
}

TEST_F(ValueTreeTest, AWholeStepWithoutMpi) {
  const StatusOr<CheckpointReader> reader = CheckpointReader::Open(run());
  Ok(reader);
  ValueTree tree = Ok(ReadTree(*reader));
  ExpectIsTheProgram(tree);
}

TEST_F(ValueTreeTest, AsSingleValues) {
  ValueTree group, dict, text, list;
  list.items.resize(3);  // what was there before is gone
  State state;
  state.Add("group", group);
  state.Add("dict", dict);
  state.Add("text", text);
  state.Add("list", list);
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(group.Find("scalar")->tensor->values<double>()[0], 1.5);
  EXPECT_TRUE(group.Find("inner/none")->is_none());
  EXPECT_EQ(dict.items.size(), 4);
  EXPECT_TRUE(dict.is_dict());
  EXPECT_EQ(text.text, program_.text);
  EXPECT_EQ(list.items.size(), 12);
}

// What a tree holds is stored as what it was, and a program that knows the
// types gets it back.
TEST_F(ValueTreeTest, IsSavedAsWhatItWas) {
  ValueTree tree = Ok(RestoreTree(comm_, run(), kLatestStep));
  State state;
  for (ValueTree& item : tree.items) state.Add(item.name, item);
  Ok(Save(comm_, run(), 2, state));
  const auto values = [&](int64_t step) {
    return CheckpointReader::Open(StepFile(step, ""))->Values();
  };
  EXPECT_EQ(values(1), values(2));
  Program restored;
  restored.dict.clear();
  restored.list.clear();
  restored.list.resize(1);
  restored.bools.clear();
  restored.text = "";
  restored.scalar = 0;
  Ok(Restore(comm_, run(), 2, restored.state()));
  EXPECT_EQ(restored.scalar, program_.scalar);
  EXPECT_EQ(restored.dict, program_.dict);
  EXPECT_EQ(restored.list.size(), program_.list.size());
  EXPECT_EQ(restored.bools, program_.bools);
  EXPECT_EQ(restored.texts, program_.texts);
}

// Of a handler that the program does not have, the parts.
TEST_F(ValueTreeTest, AValueOfAnotherProgram) {
  State state;
  program_.polynomial.coefficients = {1, 2, 3};
  state.Add("p", program_.polynomial);
  const TypeHandlerRegistry polynomials = testing::Polynomials();
  Ok(Save(comm_, run(), 3, state, {.handlers = &polynomials}));
  ValueTree tree = Ok(RestoreTree(comm_, run(), 3));
  EXPECT_EQ(tree.Find("p")->typestr, "polynomial");
  EXPECT_THAT(tree.Find("p/coefficients")->tensor->values<double>(),
              ElementsAre(1, 2, 3));
  State again;
  again.Add("p", tree.Find("p"));
  Ok(Save(comm_, run(), 4, again));
  program_.polynomial.coefficients.clear();
  Ok(Restore(comm_, run(), 4, state, {.handlers = &polynomials}));
  EXPECT_THAT(program_.polynomial.coefficients, ElementsAre(1, 2, 3));
}

TEST_F(ValueTreeTest, InsideObjects) {
  ValueTree config;
  config.typestr = std::string(kDictTypestr);
  ValueTree& rate = config.items.emplace_back();
  rate.name = "rate";
  rate.typestr = std::string(kScalarTypestr);
  rate.tensor = Tensor::Of<double>({}, {0.5});
  const auto as_value = [](auto& value) {
    return ObjectRef([&](Tracker& tracker) { tracker.Value("config", value); });
  };
  Checkpoint checkpoint(comm_, as_value(config));
  Ok(checkpoint.Save(run() + "/objects"));
  const ValueTree all = Ok(RestoreTree(comm_, run() + "/objects", kLatestStep));
  EXPECT_EQ(all.Find("/.ATTRIBUTES/config/rate")->tensor->values<double>()[0],
            0.5);
  Dict known;
  Checkpoint other(comm_, as_value(known));
  Ok(other.Restore(run() + "/objects"));
  EXPECT_EQ(known, (Dict{{"rate", 0.5}}));
  config.items.clear();
  Ok(checkpoint.Restore(run() + "/objects"));
  EXPECT_EQ(config.Find("rate")->tensor->values<double>()[0], 0.5);
}

TEST_F(ValueTreeTest, OptionsForValuesThatAProgramHasAreRefused) {
  const Status status =
      RestoreTree(comm_, run(), 1, {.unexpected = MismatchPolicy::kError})
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::IsNotFound(RestoreTree(comm_, run(), 9).status()));
}

}  // namespace
}  // namespace belay::value_tree_test
