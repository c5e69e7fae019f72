// Finds values of a checkpoint by the paths of the objects that hold them.

#ifndef BELAY_TOOLS_OBJECT_PATH_H_
#define BELAY_TOOLS_OBJECT_PATH_H_

#include <string>
#include <string_view>
#include <vector>

#include "belay/objects/object_info.h"

namespace belay::tools {

// Returns the keys of the values that a path may refer to. A path, as shown by
// belay graph, leads to an object that is a variable, "(root).model.w", or to a
// value of an object, "(root).adam.rate". "(root)." may be omitted, and any
// path to the object is accepted. Names may contain dots, so there may be
// several keys.
std::vector<std::string> KeysAt(const std::vector<ObjectInfo>& objects,
                                std::string_view path);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_OBJECT_PATH_H_
