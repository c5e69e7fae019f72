// In which language the program names what belay tells it when no call returns
// an error that could be put in other words.

#ifndef BELAY_BASE_PROGRAM_WORDS_H_
#define BELAY_BASE_PROGRAM_WORDS_H_

#include <string>

#include "belay/status.h"

namespace belay {

// The program calls belay from C or Fortran. Local.
void UseWordsOfC();

// Returns the message in the words of C if the program uses it, else in those
// of Python where the process has an interpreter, else in those of C++. Local.
std::string InWordsOfProgram(std::string message);
Status InWordsOfProgram(const Status& status);

}  // namespace belay

#endif  // BELAY_BASE_PROGRAM_WORDS_H_
