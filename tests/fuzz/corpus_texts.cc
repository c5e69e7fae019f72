#include "corpus_texts.h"

#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/text.h"
#include "fuzz_input.h"
#include "manager/manager_state.h"
#include "safetensors/export_plan.h"
#include "safetensors/header.h"
#include "storage/lease.h"
#include "storage/metadata_file.h"

namespace belay {
namespace {

// Deeper than what nests is in any sound text.
constexpr size_t kDepth = 4000;

std::string HeaderInput(const std::vector<safetensors::FileTensor>& tensors,
                        const safetensors::Metadata& metadata) {
  FuzzInputWriter out;
  const int64_t data = tensors.empty() ? 0 : tensors.back().end;
  out.Put(static_cast<uint64_t>(data) << 1);
  return Cat(out.bytes(), safetensors::HeaderText({tensors, metadata}).value());
}

// A header of other bytes.
std::string HeaderOfText(std::string_view text) {
  FuzzInputWriter out;
  out.Put(uint64_t{0});
  out.Put(static_cast<uint64_t>(text.size()));
  return Cat(out.bytes(), text);
}

}  // namespace

std::vector<std::string> LeaseTexts() {
  const LeaseOwner owner{.host = "n1",
                         .pid = 7,
                         .start_time = 42,
                         .job = "42",
                         .cluster = "c",
                         .restarts = 1,
                         .user = "u",
                         .since = "2026-01-31 12:00"};
  return {LeaseText({}), LeaseText(owner), "", "{\"belay_lease\":1,\"ho",
          "{\"belay_lease\":1,\"pid\":" + std::string(kDepth, '[')};
}

std::vector<std::string> StateTexts() {
  const StepRecord record{.step = 8,
                          .time = 1.5e9,
                          .metrics = Metrics{{"loss", 0.25}, {"nan", NAN}},
                          .preserved = true};
  ManagerState state{.last_preserved = -INFINITY, .steps = {{.step = 2}}};
  state.steps.push_back(record);
  state.saving = StepRecord{.step = 10};
  state.going_back = GoingBack{2, "step.aside_0001", true};
  return {StateText({}, "step").value(), StateText(state, "step").value(),
          StateText({}, "other").value(),
          "{\"format\":" + std::string(kDepth, '[')};
}

std::vector<std::string> MetadataTexts() {
  return {MetadataText({}).value(),
          MetadataText({{"data", "seed 7"},
                        {"gr\xc3\xb6\xc3\x9f"
                         "e",
                         "\"\n"}})
              .value(),
          std::string(kDepth, '[')};
}

std::vector<std::string> SafetensorsHeaders() {
  return {HeaderInput({}, {}),
          HeaderInput({}, {{"format", "pt"}}),
          HeaderInput({{"a", DType::kF64, {}, {2, 3}, 0, 48},
                       {"b.c", DType::kBF16, {}, {1}, 48, 50},
                       {"none", DType::kU8, {}, {0, 9}, 50, 50},
                       {"scalar", DType::kBool, {}, {}, 50, 51}},
                      {{"step", "7"}}),
          HeaderOfText("{\"x\":{\"dtype\":\"F4\",\"shape\":[2],"
                       "\"data_offsets\":[0,1]}}"),
          HeaderOfText(std::string(kDepth, '{')),
          HeaderOfText(std::string(kDepth, '['))};
}

std::vector<std::string> SafetensorsIndexes() {
  const safetensors::FilePlan files =
      safetensors::PlanFiles({{"a", DType::kF32, {}, {400}},
                              {"b", DType::kI8, {}, {900}},
                              {"c/d", DType::kI8, {}, {3}}},
                             {{"by", "belay"}}, "model", 2000)
          .value();
  return {files.index_text, "model-00001-of-00003.safetensors",
          "{\"weight_map\":{\"a\":\"../b\"}}",
          "{\"weight_map\":{},\"x\":" + std::string(kDepth, '[')};
}

std::vector<std::string> StructTexts() {
  return {"id:i64 x:f32[3]", "a:bool", "position.x:f64 position.y:f64 c:c128",
          "m:u8[2,3,4,5] n:bf16", "x:f64[1073741824,2]"};
}

std::vector<std::string> OtherTexts() {
  // Kinds as fuzz_texts.cc counts them.
  const std::pair<uint8_t, std::string_view> texts[] = {
      {0, "4 3 5 0,4:1,1:3,2"},
      {0, "8 2 -:0,0"},
      {1, "[x,-] on x=2,y=4"},
      {1, "[x+y,-,z] on x=2,y=4,z=3"},
      {2, "/job:belay/replica:0/task:3/device:GPU:1"},
      {2, "cpu:0"},
      {3, "enc/(.*)/w([0-9]+)\nnew/\\1.\\2\nenc/a/w12"},
      {3, "((a{1,100}){1,100}){1,100}\n\\0\naaa"},
      {4, "2(4),1(6)"},
      {4, "32000(1,2,3)"},
      {5, "step_00000042"},
      {5, "run/x.safetensors.00c0ffee00c0ffee.inprogress"},
      {6, "\x1b[31mred \xe2\x80\xae \xc3\xb6 \xff"},
      {7, "bf16"},
      {8, "3-04:05:06\nUNLIMITED\n05:06\n"},
      {9, "dir\n10\n3\n1\ntwo_phase"},
      {10, std::string_view("\xd0\x0b\xd1\x0b\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                            "\0\0\0\0\0\x10\0\4\0\0\0",
                            32)}};
  std::vector<std::string> inputs;
  for (const auto& [kind, text] : texts) {
    FuzzInputWriter out;
    out.Put(kind);
    inputs.push_back(Cat(out.bytes(), text));
  }
  return inputs;
}

}  // namespace belay
