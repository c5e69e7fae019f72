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
      "the stored state does not fit this random engine, or another standard "
      "library wrote it: restore it with the engine and library that saved it, "
      "or leave it out and seed the engine");
}

}  // namespace belay::standard
