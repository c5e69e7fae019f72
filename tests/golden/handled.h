// The values with handlers of the golden checkpoints.
// Never change a value or a name here: files in the repository hold it.

#ifndef BELAY_TESTS_GOLDEN_HANDLED_H_
#define BELAY_TESTS_GOLDEN_HANDLED_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belay/extend/type_handler_registry.h"
#include "belay/objects/trackable.h"

namespace belay::golden {

inline constexpr int64_t kValuesStep = 13;

// A signal in two parts.
struct Signal {
  std::vector<double> samples;
  std::string unit;

  friend bool operator==(const Signal&, const Signal&) = default;
};

class SignalHandler : public Handler<Signal> {
 public:
  std::string typestr() const override { return "golden signal"; }
  Status ListForSave(Signal& value, State& parts) const override {
    parts.Add("samples", value.samples);
    parts.Add("unit", value.unit);
    return absl::OkStatus();
  }
  Status ListForRestore(Signal& value, const StoredValue& stored,
                        State& parts) const override {
    value.samples.resize(
        static_cast<size_t>(stored.Find("samples")->shape.at(0)));
    return ListForSave(value, parts);
  }
};

// A value that holds one of another handler, and one that has no parts.
struct Station {
  Signal signal;
  bool is_there = false;

  friend bool operator==(const Station&, const Station&) = default;
};

class StationHandler : public Handler<Station> {
 public:
  std::string typestr() const override { return "golden station"; }
  Status ListForSave(Station& value, State& parts) const override {
    if (value.is_there) parts.Add("signal", value.signal);
    return absl::OkStatus();
  }
  Status ListForRestore(Station& value, const StoredValue& stored,
                        State& parts) const override {
    value.is_there = !stored.parts.empty();
    return ListForSave(value, parts);
  }
};

inline TypeHandlerRegistry Handlers() {
  return CreateTypeHandlerRegistry(
             {EntryFor<Signal>(std::make_shared<SignalHandler>()),
              EntryFor<Station>(std::make_shared<StationHandler>())})
      .value();
}

// An object that has them.
struct Field {
  Signal signal = {{1, -2.5, 4}, "mV"};
  Station station = {{{7}, "s"}, true};
  Station empty;
  int32_t number = 17;

  void Track(Tracker& tracker) {
    tracker.Value("signal", signal);
    tracker.Value("number", number);
    tracker.Value("station", station);
    tracker.Child("empty", empty);
  }
};

}  // namespace belay::golden

#endif  // BELAY_TESTS_GOLDEN_HANDLED_H_
