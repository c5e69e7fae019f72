// The results of saves and restores, and layouts, as Python's classes.

#include <pybind11/stl.h>

#include <utility>

#include "arrays.h"
#include "belay/arrays/layout.h"
#include "belay/arrays/mesh.h"
#include "errors.h"
#include "names.h"
#include "save_restore.h"

namespace belay::python {
namespace {

py::dict CountersOf(const TransferCounters& counters) {
  py::dict all;
  all["bytes"] = counters.bytes;
  all["delivered_bytes"] = counters.delivered_bytes;
  all["staged_bytes"] = counters.staged_bytes;
  all["io_calls"] = counters.io_calls;
  all["files"] = counters.files;
  all["messages"] = counters.messages;
  all["peak_memory_bytes"] = counters.peak_memory_bytes;
  py::dict stages;
  for (const StageTime& stage : counters.stages) {
    stages[py::str(stage.stage)] = stage.seconds;
  }
  all["stages"] = stages;
  return all;
}

const char* TransferName(Transfer transfer) {
  switch (transfer) {
    case Transfer::kCollective:
      return "collective";
    case Transfer::kIndependent:
      return "independent";
    case Transfer::kHdf5:
      return "hdf5";
    case Transfer::kTwoPhase:
      return "two_phase";
    default:
      return "auto";
  }
}

py::list NamesOf(const std::vector<std::string>& keys) {
  py::list names;
  for (const std::string& key : keys) names.append(NameOf(key));
  return names;
}

// Returns each conversion as a dict: key, dtype, shape, stored_dtype,
// stored_shape.
py::list ConversionsOf(const std::vector<Conversion>& conversions) {
  py::list all;
  for (const Conversion& one : conversions) {
    py::dict described;
    described["key"] = NameOf(one.key);
    described["dtype"] = std::string(DTypeName(one.dtype));
    described["shape"] = TupleOf(one.shape);
    described["stored_dtype"] = std::string(DTypeName(one.stored_dtype));
    described["stored_shape"] = TupleOf(one.stored_shape);
    all.append(described);
  }
  return all;
}

std::vector<MeshAxis> MeshAxesOf(const py::dict& axes) {
  std::vector<MeshAxis> all;
  for (const auto& [name, size] : axes) {
    all.push_back({name.cast<std::string>(), size.cast<int64_t>()});
  }
  return all;
}

// Reads, for each axis of the array, a name, a list of names, or None.
LayoutAxes LayoutAxesOf(py::handle axes) {
  LayoutAxes all;
  for (const py::handle axis : axes) {
    std::vector<std::string>& names = all.emplace_back();
    if (axis.is_none()) continue;
    if (py::isinstance<py::str>(axis)) {
      names.push_back(axis.cast<std::string>());
    } else {
      names = axis.cast<std::vector<std::string>>();
    }
  }
  return all;
}

void DefineMesh(py::module_& module) {
  py::class_<Mesh>(module, "Mesh",
                   R"(Ranks in a grid with named axes, row-major.

Parameters
----------
axes : dict of str to int
    The number of ranks along each axis, the last of which varies fastest.

Examples
--------
>>> belay.Mesh({"data": 2, "model": 4}).num_ranks
8
)")
      .def(py::init([](const py::dict& axes) {
        return ValueOrThrow(Mesh::Create(MeshAxesOf(axes)));
      }))
      .def_property_readonly("num_ranks", &Mesh::num_ranks)
      .def_property_readonly(
          "axes",
          [](const Mesh& mesh) {
            py::dict axes;
            for (const MeshAxis& axis : mesh.axes()) {
              axes[py::str(axis.name)] = axis.size;
            }
            return axes;
          },
          "The number of ranks along each axis, by name.")
      .def("coordinates",
           [](const Mesh& mesh, int rank) {
             if (rank < 0 || rank >= mesh.num_ranks()) {
               ThrowInvalid("coordinates: the mesh has no such rank");
             }
             return py::tuple(py::cast(mesh.Coordinates(rank)));
           })
      .def("__eq__", [](const Mesh& a, const Mesh& b) { return a == b; })
      .def("__repr__",
           [](const Mesh& mesh) { return "Mesh(" + mesh.ToString() + ")"; });
}

}  // namespace

void DefineLayouts(py::module_& module) {
  DefineMesh(module);
  py::class_<Layout>(module, "Layout",
                     R"(How an array is cut over the ranks of a mesh.

Parameters
----------
mesh : Mesh
axes : sequence
    For each axis of the array the name of the mesh axis that cuts it, a list of
    names, or None if it is whole on every rank. Ranks along mesh axes that are
    not named hold replicas.

Examples
--------
>>> layout = belay.Layout(belay.Mesh({"x": 2, "y": 2}), ["x", None])
>>> layout.local_box((5, 3), rank=3)
((3, 0), (2, 3))
)")
      .def(py::init([](const Mesh& mesh, py::handle axes) {
        return ValueOrThrow(Layout::Create(mesh, LayoutAxesOf(axes)));
      }))
      .def(
          "local_box",
          [](const Layout& layout, py::handle shape, int rank) {
            const Box box = ValueOrThrow(layout.LocalBox(ShapeOf(shape), rank));
            return py::make_tuple(TupleOf(box.offset), TupleOf(box.shape));
          },
          py::arg("global_shape"), py::arg("rank"),
          "Return offset and shape of the piece of a rank.")
      .def_property_readonly("mesh", &Layout::mesh)
      .def_property_readonly("ndim", &Layout::ndim)
      .def_property_readonly("num_replicas", &Layout::NumReplicas)
      .def("on_ranks", &Layout::OnRanks, py::arg("num_ranks"),
           "Return the same layout for another number of ranks.")
      .def("__eq__", [](const Layout& a, const Layout& b) { return a == b; })
      .def("__repr__", [](const Layout& layout) {
        return "Layout(" + layout.ToString() + ")";
      });
}

void DefineResults(py::module_& module) {
  py::class_<SaveResult>(module, "SaveResult",
                         "What a save has written; equal on all ranks.")
      .def_readonly("path", &SaveResult::path)
      .def_readonly("step", &SaveResult::step)
      .def_readonly("num_arrays", &SaveResult::num_arrays)
      .def_readonly("plan_reused", &SaveResult::plan_reused)
      .def_readonly("transfer_note", &SaveResult::transfer_note)
      .def_property_readonly(
          "warnings", [](const SaveResult& result) { return result.warnings; })
      .def_property_readonly("transfer",
                             [](const SaveResult& result) {
                               return TransferName(result.transfer);
                             })
      .def_property_readonly(
          "counters",
          [](const SaveResult& result) { return CountersOf(result.counters); })
      .def("__str__", &SaveResult::ToString)
      .def("__repr__", [](const SaveResult& result) {
        return "<belay.SaveResult of " + result.path + ">";
      });
}

py::object RestoreResultOf(const RestoreResult& result,
                           const py::object& state) {
  const py::object type =
      py::module_::import("belay._values").attr("RestoreResult");
  py::dict fields;
  fields["state"] = state;
  fields["step"] = result.step;
  fields["path"] = result.path;
  fields["num_arrays"] = result.num_arrays;
  fields["conversions"] = ConversionsOf(result.conversions);
  fields["missing"] = NamesOf(result.missing);
  fields["unexpected"] = NamesOf(result.unexpected);
  fields["mismatched"] = ConversionsOf(result.mismatched);
  fields["warnings"] = NamesOf(result.warnings);
  fields["counters"] = CountersOf(result.counters);
  return type(**fields);
}

}  // namespace belay::python
