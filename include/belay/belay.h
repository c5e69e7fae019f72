// Includes most of belay, except arrays/tensor_arithmetic.h, manager/job.h, and
// the headers that need other libraries: arrays/eigen.h and arrays/mdspan.h. A
// source that includes only the headers it needs compiles faster.

#ifndef BELAY_BELAY_H_
#define BELAY_BELAY_H_

#include "belay/async_saver.h"
#include "belay/check.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_manager.h"
#include "belay/checkpoint_reader.h"
#include "belay/comm.h"
#include "belay/extend/type_handler_registry.h"
#include "belay/handlers/value_tree.h"
#include "belay/log.h"
#include "belay/objects/trackable.h"
#include "belay/options.h"
#include "belay/reader/copy_checkpoint.h"
#include "belay/reader/step_pin.h"
#include "belay/rows.h"
#include "belay/run.h"
#include "belay/safetensors.h"
#include "belay/save_restore.h"
#include "belay/sharded_variable.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/values/restore_preview.h"
#include "belay/values/restore_values.h"
#include "belay/variable/sharded_variable_ops.h"
#include "belay/variable/sparse_ops.h"
#include "belay/version.h"

#endif  // BELAY_BELAY_H_
