// Whether a stored value can be given to one of the program. Pure.

#ifndef BELAY_GRAPH_MATCH_ATTRIBUTE_FIT_H_
#define BELAY_GRAPH_MATCH_ATTRIBUTE_FIT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/shard.h"
#include "belay/objects/load_status.h"
#include "belay/values/transform.h"
#include "graph/object_graph.h"
#include "plan/restore_choice.h"

namespace belay {

// What the type of a value with a handler begins with in messages.
inline constexpr std::string_view kTypeText = "type ";

// The type of a value in messages: "f32 [4, 3]", "type sparse".
std::string TypeText(const GraphAttribute& attribute);

// The attribute of a value whose container takes the stored length, as it is
// then; nothing if it stays as it is.
std::optional<GraphAttribute> FittedTo(const GraphAttribute& stored,
                                       const std::vector<Shard>& shards,
                                       const GraphAttribute& needed);

// What a transform makes of stored values, which `find` gives by key, or null.
// Nothing if it cannot be made: reading says why.
std::optional<GraphAttribute> ResultOf(
    const Transform& transform,
    absl::FunctionRef<const GraphAttribute*(const std::string& key)> find);

// Whether the values of two attributes are of one kind. A handler says for
// itself what it makes of what is stored.
bool IsSameKind(const GraphAttribute& stored, const GraphAttribute& needed);

// Whether the value of an attribute can be given to another, of another kind.
bool Fits(const GraphAttribute& stored, const GraphAttribute& needed,
          Tolerance tolerance);

// What helps against the differences of these values: the options that let them
// pass, and which value none of them does. "" for no values.
std::string MismatchAdvice(const std::vector<DifferentValue>& values);

}  // namespace belay

#endif  // BELAY_GRAPH_MATCH_ATTRIBUTE_FIT_H_
