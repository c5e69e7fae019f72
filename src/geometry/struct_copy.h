// Copying structs between a program's memory and what is stored of them.
//
// In:  boxes with two axes: the structs, and the bytes of one as it is stored.
//      `memory` is the struct at the corner of `memory_box`, with the others
//      one behind the other; `stored` is dense and row-major.

#ifndef BELAY_GEOMETRY_STRUCT_COPY_H_
#define BELAY_GEOMETRY_STRUCT_COPY_H_

#include "belay/arrays/box.h"
#include "belay/arrays/fields.h"

namespace belay {

// Whether structs lie in memory as they are stored. Local.
bool IsDense(const StructLayout& layout);

// Copies what `box` is of the structs; bytes that none of their parts has
// become 0. Both boxes contain `box`. Local.
void PackStructs(const StructLayout& layout, const Box& box, const char* memory,
                 const Box& memory_box, char* stored, const Box& stored_box);

// The other way round; bytes of the program's structs that no part has stay as
// they are. Local.
void UnpackStructs(const StructLayout& layout, const Box& box,
                   const char* stored, const Box& stored_box, char* memory,
                   const Box& memory_box);

}  // namespace belay

#endif  // BELAY_GEOMETRY_STRUCT_COPY_H_
