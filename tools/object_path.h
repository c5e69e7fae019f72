// Values of a checkpoint by the paths of the objects that hold them.

#ifndef BELAY_TOOLS_OBJECT_PATH_H_
#define BELAY_TOOLS_OBJECT_PATH_H_

#include <string>
#include <string_view>
#include <vector>

#include "belay/objects/object_info.h"

namespace belay::tools {

// The keys of the values that a path may mean, as belay graph shows them: of an
// object that is a variable, "(root).model.w", or of a value of an object,
// "(root).adam.rate". "(root)." may be left out, and any of the paths that lead
// to an object will do. Names may hold dots, so there may be several.
std::vector<std::string> KeysAt(const std::vector<ObjectInfo>& objects,
                                std::string_view path);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_OBJECT_PATH_H_
