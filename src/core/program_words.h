// The words of the program's language in messages.

#ifndef BELAY_CORE_PROGRAM_WORDS_H_
#define BELAY_CORE_PROGRAM_WORDS_H_

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

// In which language the program names what belay tells it when no call returns
// an error that could be put in other words.

// The program calls belay from C or Fortran.
void UseWordsOfC();

// Returns the message in the words of C if the program uses it, else in those
// of Python where the process has an interpreter, else in those of C++.
std::string InWordsOfProgram(std::string message);
Status InWordsOfProgram(const Status& status);

// Errors name options as C++ programs write them. Callers in other languages
// get the names that they use.

// A phrase of a message. Null: that language has no such option.
struct OptionWords {
  const char* cpp;
  const char* python;
  const char* c;  // and Fortran, whose options have the same names
};

// A phrase that begins with another one stands before it.
inline constexpr std::array kOptionWords = {
    OptionWords{"set SaveOptions.overwrite", "pass overwrite=True",
                "set the option overwrite"},
    OptionWords{"set ExportOptions.overwrite", "pass overwrite=True", nullptr},
    OptionWords{"set ManagerOptions.newer_steps to go on",
                "pass newer_steps=\"set_aside\" or \"delete\" to go on",
                "set the option newer_steps to set_aside or delete to go on"},
    OptionWords{"ManagerOptions.newer_steps", "the option newer_steps",
                "the option newer_steps"},
    OptionWords{"ManagerOptions::restore_match", "the option restore_match",
                "the option restore_match"},
    OptionWords{"leave it out with RestoreArgs::skip",
                "leave it out with args={key: {\"skip\": True}}", nullptr},
    OptionWords{"set RestoreOptions.missing", "pass missing=\"ignore\"",
                "set the option missing to ignore"},
    OptionWords{"saved by AddPiece,", "saved as a belay.Piece,",
                "saved by belay_state_add_piece (Fortran: belay_add_piece),"},
    OptionWords{"AddPerRank or Tracker::PerRank", "belay.PerRank",
                "belay_state_add_per_rank (Fortran: belay_add_per_rank)"},
    OptionWords{"AddFromRank0 or FromRank0", "belay.FromRank0",
                "belay_state_add_from_rank0 (Fortran: belay_add_from_rank0)"},
    OptionWords{"Layout::OnRanks", "Layout.on_ranks", "belay_layout_on_ranks"},
    OptionWords{"RestoreOptions.allow_dtype_cast",
                "the option allow_dtype_cast", "the option allow_dtype_cast"},
    OptionWords{"RestoreOptions.allow_shape_mismatch",
                "the option allow_shape_mismatch",
                "the option allow_shape_mismatch"},
    OptionWords{"ArrayLayout::kCanonical", "array_layout=\"canonical\"",
                "array_layout=canonical"},
    OptionWords{"contiguously: use kAuto", "contiguously: use \"auto\"",
                "contiguously: use auto"},
    OptionWords{"the newest one is kLatestStep",
                "without a step the newest one is taken",
                "the newest one is BELAY_LATEST_STEP"},
    OptionWords{"pass the path of the step itself with kLatestStep",
                "pass the path of the step itself and no step",
                "pass the path of the step itself with BELAY_LATEST_STEP"},
    OptionWords{"which kLatestStep takes", "which a call without a step takes",
                "which BELAY_LATEST_STEP takes"},
    OptionWords{"read_sharing is kEachRank", "read_sharing is \"each_rank\"",
                "read_sharing is each_rank"},
    OptionWords{"say it by ArrayRestoreArgs", "pass a state", nullptr},
    OptionWords{"FileLayout::kPerNode", "file_layout=\"per_node\"",
                "file_layout=per_node"},
    OptionWords{"other_ranks = OtherRanks::kFirst", "other_ranks=\"first\"",
                "BELAY_OTHER_RANKS_FIRST"},
    OptionWords{"use OtherRanks::kFirst", "use other_ranks=\"first\"",
                "use BELAY_OTHER_RANKS_FIRST"},
    OptionWords{" or kEven", " or \"even\"", " or BELAY_OTHER_RANKS_EVEN"},
    OptionWords{", or a function `source`", "", ""},
    OptionWords{"OtherRanks::kEven", "other_ranks=\"even\"",
                "BELAY_OTHER_RANKS_EVEN"},
    OptionWords{"save: AsyncOptions", "save: the options of the saver",
                "save: the options of the saver"},
    OptionWords{"AsyncOptions: ", "the option ", "the option "},
    OptionWords{": on_open: ", ": ", ": "},
    OptionWords{"nobody has called Close, Wait or WaitUntilFinished",
                "nobody has called close(), wait() or wait_until_finished()",
                "nobody has called belay_saver_close, belay_saver_wait or "
                "belay_manager_wait"},
    OptionWords{"let a rank that fails end all ranks with belay::Check or "
                "MPI_Abort",
                "let a rank that fails raise an exception instead of calling "
                "sys.exit()",
                "let a rank that fails end all ranks with MPI_Abort"},
    OptionWords{"WaitForSnapshot was not called",
                "wait_for_snapshot() was not called", nullptr},
    OptionWords{"; a MemoryLayout describes a box in larger memory",
                "; the option ghost of belay.Piece counts cells around the box",
                nullptr},
};

// Returns the message with the names of another language: its member of
// OptionWords.
inline std::string InWordsOf(const char* const OptionWords::*language,
                             std::string message) {
  for (const OptionWords& words : kOptionWords) {
    const char* const own = words.*language;
    if (own == nullptr) continue;
    const std::string_view cpp = words.cpp;
    for (size_t at = message.find(cpp); at != message.npos;
         at = message.find(cpp, at)) {
      message.replace(at, cpp.size(), own);
      at += std::string_view(own).size();
    }
  }
  return message;
}

}  // namespace belay

#endif  // BELAY_CORE_PROGRAM_WORDS_H_
