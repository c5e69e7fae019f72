#include <cstring>

#include "h5_testing.h"
#include "hdf5/file.h"

namespace belay::h5::h5_types_test {
namespace {

using nlohmann::json;

struct TypeCase {
  std::string name;
  DType dtype;
  std::string bits;  // of all elements, as they are stored
  std::string python_dtype;
  json values;
  json attrs = json::object();
};

template <typename... T>
std::string Bits(T... values) {
  std::string bits;
  (bits.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  return bits;
}

std::string Half(uint16_t a, uint16_t b) { return Bits(a, b); }

std::vector<TypeCase> TypeCases() {
  const json e4m3 = {{"belay_dtype", "f8e4m3"}};
  const json e5m2 = {{"belay_dtype", "f8e5m2"}};
  return {
      {"f16",
       DType::kF16,
       Half(0x3555, 0xC000),
       "float16",
       {0.333251953125, -2.0}},
      {"bf16",
       DType::kBF16,
       Half(0x3EAB, 0xC2F7),
       "float32",
       {0.333984375, -123.5}},
      {"f32", DType::kF32, Bits(0.5f, -3.0f), "float32", {0.5, -3.0}},
      {"f64", DType::kF64, Bits(0.1, -1e300), "float64", {0.1, -1e300}},
      {"f8e4m3", DType::kF8E4M3, "\x7E\x81", "uint8", {0x7E, 0x81}, e4m3},
      {"f8e5m2", DType::kF8E5M2, "\x7B\xFC", "uint8", {0x7B, 0xFC}, e5m2},
      {"i8", DType::kI8, "\x80\x7F", "int8", {-128, 127}},
      {"i16",
       DType::kI16,
       Bits(int16_t{-32768}, int16_t{7}),
       "int16",
       {-32768, 7}},
      {"i32", DType::kI32, Bits(INT32_MIN, 7), "int32", {INT32_MIN, 7}},
      {"i64",
       DType::kI64,
       Bits(INT64_MIN, int64_t{7}),
       "int64",
       {INT64_MIN, 7}},
      {"u8", DType::kU8, "\xFF\x01", "uint8", {255, 1}},
      {"u16",
       DType::kU16,
       Bits(uint16_t{65535}, uint16_t{1}),
       "uint16",
       {65535, 1}},
      {"u32", DType::kU32, Bits(UINT32_MAX, 1u), "uint32", {UINT32_MAX, 1}},
      {"u64",
       DType::kU64,
       Bits(UINT64_MAX, uint64_t{1}),
       "uint64",
       {UINT64_MAX, 1}},
      {"bool", DType::kBool, std::string("\x01\x00", 2), "bool", {true, false}},
      {"c64",
       DType::kC64,
       Bits(1.5f, -2.0f, 0.0f, 4.0f),
       "complex64",
       {{1.5, -2.0}, {0.0, 4.0}}},
      {"c128",
       DType::kC128,
       Bits(0.1, -2.0, 0.0, 1e300),
       "complex128",
       {{0.1, -2.0}, {0.0, 1e300}}},
      {"string",
       DType::kString,
       std::string("abcde\0", 6),
       "|S3",
       {"abc", "de"}},
  };
}

class H5TypesTest : public H5Test {
 protected:
  // Writes two elements of every type; strings are written as two of 3 bytes.
  std::vector<int64_t> WriteAll(const std::string& path) {
    ObjectCache cache;
    std::vector<int64_t> offsets;
    Handle file = Value(CreateFile(path));
    for (const TypeCase& c : TypeCases()) {
      const auto text = static_cast<int64_t>(c.bits.size() / 2);
      offsets.push_back(Value(CreateDataset(
          file, cache, {"all/" + c.name, c.dtype, text, {2}, {}})));
      const Handle dataset = Value(OpenDataset(file, "all/" + c.name));
      Ok(WriteHyperslab(dataset, WholeBox({2}), {c.dtype, text},
                        c.bits.data()));
    }
    cache = {};
    Ok(file.Close());
    return offsets;
  }
};

TEST_F(H5TypesTest, EveryTypeKeepsItsBitsInTheFile) {
  const std::vector<int64_t> offsets = WriteAll(Path("a.h5"));
  const std::string bytes = testing::FileBytes(Path("a.h5"));
  const std::vector<TypeCase> cases = TypeCases();
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(bytes.substr(offsets[i], cases[i].bits.size()), cases[i].bits)
        << cases[i].name;
  }
}

TEST_F(H5TypesTest, EveryTypeReadsBackBitForBit) {
  WriteAll(Path("a.h5"));
  const Handle file = Value(OpenFileReadOnly(Path("a.h5")));
  for (const TypeCase& c : TypeCases()) {
    std::string found(c.bits.size(), '?');
    Ok(ReadHyperslab(file, "all/" + c.name,
                     {c.dtype, static_cast<int64_t>(found.size() / 2)},
                     WholeBox({2}), found.data()));
    EXPECT_EQ(found, c.bits) << c.name;
  }
}

TEST_F(H5TypesTest, H5pyShowsTheValues) {
  WriteAll(Path("a.h5"));
  std::vector<std::string> paths;
  for (const TypeCase& c : TypeCases()) paths.push_back("all/" + c.name);
  const json all = Python(Path("a.h5"), paths);
  for (const TypeCase& c : TypeCases()) {
    const json found = all["all/" + c.name];
    EXPECT_EQ(found["dtype"], c.python_dtype) << c.name;
    EXPECT_EQ(found["values"], c.values) << c.name;
    EXPECT_EQ(found["attrs"], c.attrs) << c.name;
  }
}

TEST_F(H5TypesTest, H5pyShowsAStringScalar) {
  const std::string text =
      "stra\xC3\x9F"
      "e";
  const auto size = static_cast<int64_t>(text.size());
  Handle file = Value(CreateFile(Path("a.h5")));
  ObjectCache cache;
  Value(CreateDataset(file, cache, {"s", DType::kString, size, {}, {}}));
  Handle dataset = Value(OpenDataset(file, "s"));
  Ok(WriteHyperslab(dataset, {}, {DType::kString, size}, text.data()));
  Ok(dataset.Close());
  cache = {};
  Ok(file.Close());
  const json found = Python(Path("a.h5"), {"s"})["s"];
  EXPECT_EQ(found["values"], text);
  EXPECT_EQ(found["shape"], json::array());
}

TEST_F(H5TypesTest, RefusesAnotherStoredType) {
  WriteAll(Path("a.h5"));
  const Handle file = Value(OpenFileReadOnly(Path("a.h5")));
  std::string found(16, '?');
  EXPECT_EQ(ReadHyperslab(file, "all/bf16", {DType::kF16}, WholeBox({2}),
                          found.data())
                .ToString(),
            "DATA_LOSS: read \"all/bf16\": the stored type is not f16");
  EXPECT_EQ(ReadHyperslab(file, "all/string", {DType::kString, 9},
                          WholeBox({2}), found.data())
                .ToString(),
            "DATA_LOSS: read \"all/string\": the stored type is not string of "
            "9");
  EXPECT_EQ(found, std::string(16, '?'));
}

TEST(H5Types, RefusesAnUnknownNumber) {
  EXPECT_EQ(FileType({static_cast<DType>(77)}).status().ToString(),
            "INVALID_ARGUMENT: encode type: no number has dtype 77");
}

}  // namespace
}  // namespace belay::h5::h5_types_test
