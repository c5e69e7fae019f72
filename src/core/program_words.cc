#include "core/program_words.h"

#include <dlfcn.h>

#include <atomic>
#include <utility>

namespace belay {
namespace {

std::atomic<Language> last_set{Language::kCpp};
thread_local std::optional<Language> of_call;

}  // namespace

void SetLanguageOfProgram(Language language) { last_set = language; }

LanguageOfCall::LanguageOfCall(Language language)
    : before_(std::exchange(of_call, language)) {}

LanguageOfCall::~LanguageOfCall() { of_call = before_; }

Language LanguageOfProgram() {
  if (of_call) return *of_call;
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
