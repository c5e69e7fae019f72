#include "core/program_words.h"

#include <dlfcn.h>

#include <atomic>

namespace belay {
namespace {

std::atomic<Language> last_set{Language::kCpp};

}  // namespace

void SetLanguageOfProgram(Language language) { last_set = language; }

Language LanguageOfProgram() {
  if (last_set != Language::kCpp) return last_set;
  const bool has_python = dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr;
  return has_python ? Language::kPython : Language::kCpp;
}

const char* ProgramWord::InProgram() const {
  const Language language = LanguageOfProgram();
  return language == Language::kC        ? c
         : language == Language::kPython ? python
                                         : cpp;
}

}  // namespace belay
