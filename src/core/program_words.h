// Names for messages, in the program's language.

#ifndef BELAY_CORE_PROGRAM_WORDS_H_
#define BELAY_CORE_PROGRAM_WORDS_H_

#include <cstdint>
#include <optional>

namespace belay {

enum class Language : uint8_t { kCpp, kPython, kC };  // kC includes Fortran

// Returns the language of the call that this thread is in, else the language
// that was set last. If that is C++ (the initial value) and the process has a
// Python interpreter, returns Python.
Language LanguageOfProgram();

// Sets the language for later messages, including those of other threads.
void SetLanguageOfProgram(Language language);

// Sets the language of this thread during its lifetime, for a call from C.
class LanguageOfCall {
 public:
  explicit LanguageOfCall(Language language);
  LanguageOfCall(const LanguageOfCall&) = delete;
  LanguageOfCall& operator=(const LanguageOfCall&) = delete;
  ~LanguageOfCall();

 private:
  std::optional<Language> before_;
};

// A name that differs between languages. Names of options are in
// core/option_table.h.
struct ProgramWord {
  const char* cpp;
  const char* python;
  const char* c;

  const char* InProgram() const;
};

inline constexpr ProgramWord kAddPieceWord{
    "AddPiece", "belay.Piece",
    "belay_state_add_piece (Fortran: belay_add_piece)"};
inline constexpr ProgramWord kAddPerRankWord{
    "AddPerRank or Tracker::PerRank", "belay.PerRank",
    "belay_state_add_per_rank (Fortran: belay_add_per_rank)"};
inline constexpr ProgramWord kAddFromRank0Word{
    "AddFromRank0 or FromRank0", "belay.FromRank0",
    "belay_state_add_from_rank0 (Fortran: belay_add_from_rank0)"};
inline constexpr ProgramWord kArrayArgsWord{"say it by ArrayRestoreArgs",
                                            "pass a state", "pass a state"};
inline constexpr ProgramWord kEndAllRanksWord{
    "end all ranks with belay::Check or MPI_Abort",
    "raise an exception instead of calling sys.exit()",
    "end all ranks with MPI_Abort"};
inline constexpr ProgramWord kEvenWord{
    "OtherRanks::kEven", "other_ranks=\"even\"", "BELAY_OTHER_RANKS_EVEN"};
inline constexpr ProgramWord kFirstWord{
    "OtherRanks::kFirst", "other_ranks=\"first\"", "BELAY_OTHER_RANKS_FIRST"};
inline constexpr ProgramWord kLatestStepWord{"kLatestStep", "step=None",
                                             "BELAY_LATEST_STEP"};
inline constexpr ProgramWord kLeaveOutWord{
    "leave it out with RestoreArgs::skip",
    "leave it out with args={key: {\"skip\": True}}",
    "restore a state without it"};
inline constexpr ProgramWord kMemoryLayoutWord{
    "a MemoryLayout describes a box in larger memory",
    "the option ghost of belay.Piece counts cells around the box",
    "strides describe a box in larger memory"};
inline constexpr ProgramWord kOnOpenWord{": on_open", "", ""};
inline constexpr ProgramWord kOnRanksWord{"Layout::OnRanks", "Layout.on_ranks",
                                          "belay_layout_on_ranks"};
inline constexpr ProgramWord kOrSourceWord{", or a function `source`", "", ""};
inline constexpr ProgramWord kSaverOptionsWord{
    "AsyncOptions", "the options of the saver", "the options of the saver"};
inline constexpr ProgramWord kWaitWord{
    "Close or Wait", "close() or wait()",
    "belay_saver_close, belay_saver_wait or belay_manager_wait"};
inline constexpr ProgramWord kWaitForSnapshotWord{
    "WaitForSnapshot", "wait_for_snapshot()",
    "belay_saver_wait_for_snapshot or belay_manager_wait_for_snapshot"};

}  // namespace belay

#endif  // BELAY_CORE_PROGRAM_WORDS_H_
