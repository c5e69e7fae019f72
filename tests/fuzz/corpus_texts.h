// Inputs of the corpus that are texts.

#ifndef BELAY_TESTS_FUZZ_CORPUS_TEXTS_H_
#define BELAY_TESTS_FUZZ_CORPUS_TEXTS_H_

#include <string>
#include <vector>

namespace belay {

// By target.
std::vector<std::string> LeaseTexts();
std::vector<std::string> StateTexts();
std::vector<std::string> MetadataTexts();
std::vector<std::string> SafetensorsHeaders();
std::vector<std::string> SafetensorsIndexes();
std::vector<std::string> StructTexts();
std::vector<std::string> OtherTexts();

}  // namespace belay

#endif  // BELAY_TESTS_FUZZ_CORPUS_TEXTS_H_
