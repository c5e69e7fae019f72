// C++ types in messages.

#ifndef BELAY_BASE_TYPE_NAME_H_
#define BELAY_BASE_TYPE_NAME_H_

#include <string>
#include <typeindex>

namespace belay {

// Returns the name as a program would write it, such as "sim::Grid". Local.
std::string TypeName(std::type_index type);

}  // namespace belay

#endif  // BELAY_BASE_TYPE_NAME_H_
