#include "belay/handlers/random_handlers.h"

#include <locale>
#include <sstream>

namespace belay::standard {

std::string StreamText(void (*write)(std::ostream&, const void*),
                       const void* object) {
  std::ostringstream out;
  out.imbue(std::locale::classic());  // the program's may group digits
  write(out, object);
  return out.str();
}

Status ReadStreamText(const std::string& text,
                      void (*read)(std::istream&, void*), void* object) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  read(in, object);
  if (!in.fail() && (in >> std::ws).eof()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the state that is stored is none of this random engine, or another "
      "standard library has written it: restore it with that library, or seed "
      "the engine anew");
}

}  // namespace belay::standard
