// Saves in the background that nobody has waited for when their saver or the
// program ends. MPI_Finalize finishes them: the program has not lost its newest
// step. What cannot be finished ends the job with an error.

#ifndef BELAY_ASYNC_LEFT_SAVES_H_
#define BELAY_ASYNC_LEFT_SAVES_H_

#include <memory>
#include <string>

#include "async/background_save.h"

namespace belay {

// From now on MPI_Finalize asks the saver, which has begun its first save. What
// is returned turns false once its communicator is freed. Local.
std::shared_ptr<bool> RegisterSaver(BackgroundSaver& saver);

// The same no longer. Local.
void ForgetSaver(const BackgroundSaver& saver);

// Its owner ends. Keeps a saver with a save under way until MPI_Finalize, where all
// ranks come to its end, and destroys any other. Null does nothing. Local.
void LetGo(std::unique_ptr<BackgroundSaver> saver);

// For owners that are moved from and to.
struct LetSaverGo {
  void operator()(BackgroundSaver* saver) const {
    LetGo(std::unique_ptr<BackgroundSaver>(saver));
  }
};

// Another save of these ranks begins in this run: gives up those of the same that
// were kept, so that memory does not grow. Local.
void GiveUpLeftSaves(const Comm& comm, const std::string& run);

}  // namespace belay

#endif  // BELAY_ASYNC_LEFT_SAVES_H_
