#include "core/program_words.h"

#include <dlfcn.h>

#include <atomic>
#include <utility>

namespace belay {
namespace {

std::atomic<bool> uses_c{false};

bool HasPython() { return dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr; }

}  // namespace

void UseWordsOfC() { uses_c = true; }

std::string InWordsOfProgram(std::string message) {
  if (uses_c) return InWordsOf(&OptionWords::c, std::move(message));
  if (HasPython()) return InWordsOf(&OptionWords::python, std::move(message));
  return message;
}

Status InWordsOfProgram(const Status& status) {
  return Status(status.code(), InWordsOfProgram(std::string(status.message())));
}

}  // namespace belay
