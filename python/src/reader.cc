#include <pybind11/stl.h>

#include <mutex>
#include <utility>

#include "arrays.h"
#include "belay/checkpoint_reader.h"
#include "errors.h"
#include "names.h"
#include "options.h"
#include "save_restore.h"
#include "state.h"

namespace belay::python {
namespace {

CheckpointReader OpenReader(py::handle path) {
  const std::string text = PathOf(path, "path");
  return Unlocked([&] {
    const std::lock_guard lock(Hdf5Mutex());
    return CheckpointReader::Open(text);
  });
}

// Describes the array stored under a key. `fields` is not empty for structs.
py::dict ArrayInfoOf(const ArrayInfo& info) {
  const bool is_text = info.dtype == DType::kString;
  Shape shape = info.shape;
  if (!info.fields.empty()) shape.pop_back();  // the bytes of a struct
  py::dict described;
  described["is_text"] = is_text;
  described["dtype"] = std::string(DTypeName(info.dtype));
  described["fields"] = NameOf(info.fields);
  described["shape"] = TupleOf(shape);
  described["nbytes"] = info.bytes;
  described["storage"] = info.cut;
  described["layout"] = NameOf(info.layout);
  return described;
}

py::dtype NumpyDType(const CheckpointReader& reader, const py::str& name) {
  const ArrayInfo info = ValueOrThrow(reader.Find(BytesOf(name)));
  return info.fields.empty() ? NumpyOf(info.dtype) : NumpyOfFields(info.fields);
}

py::object ReadBox(const CheckpointReader& reader, const py::str& name,
                   py::handle offset, py::handle shape) {
  const std::string key = BytesOf(name);
  const ArrayInfo info = ValueOrThrow(reader.Find(key));
  Box box{ShapeOf(offset), ShapeOf(shape)};
  if (!info.fields.empty()) {
    box.offset.push_back(0);
    box.shape.push_back(info.shape.back());
  }
  const py::object array =
      ArrayOf(Unlocked([&] { return reader.ReadTensor(key, box); }));
  return info.fields.empty() ? array : StructsOf(array, info.fields);
}

// Returns a string as str, as bytes if it is not UTF-8, or as an int if it
// stores one.
py::object ReadString(const CheckpointReader& reader, const py::str& name) {
  const std::string key = BytesOf(name);
  ValueTree text;
  text.text = Unlocked([&] { return reader.ReadText(key); });
  if (MayBeBigInt(*text.text)) {
    for (const ValueInfo& value : reader.Values()) {
      if (value.key == key) text.typestr = value.typestr;
    }
  }
  return ObjectOf(text);
}

py::object ReadAll(const CheckpointReader& reader) {
  ValueTree tree = Unlocked([&] { return ReadTree(reader); });
  StoredForms forms;
  for (const ArrayInfo& array : reader.info().arrays) {
    if (!array.fields.empty()) forms.fields[array.key] = array.fields;
  }
  forms.TakeFrom(tree);
  return ObjectOf(tree, forms);
}

py::list KeysOf(const CheckpointReader& reader) {
  py::list keys;
  for (const ArrayInfo& array : reader.info().arrays) {
    keys.append(NameOf(array.key));
  }
  return keys;
}

}  // namespace

std::recursive_mutex& Hdf5Mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

void DefineReader(py::module_& module) {
  py::class_<CheckpointReader>(module, "Reader")
      .def(py::init(&OpenReader))
      .def_property_readonly(
          "path", [](const CheckpointReader& self) { return self.info().path; })
      .def_property_readonly(
          "step", [](const CheckpointReader& self) { return self.info().step; })
      .def_property_readonly(
          "time", [](const CheckpointReader& self) { return self.info().time; })
      .def_property_readonly(
          "nbytes",
          [](const CheckpointReader& self) { return self.info().bytes; })
      .def("keys", &KeysOf)
      .def("has", [](const CheckpointReader& self,
                     const py::str& name) { return self.Has(BytesOf(name)); })
      .def("find",
           [](const CheckpointReader& self, const py::str& name) {
             return ArrayInfoOf(ValueOrThrow(self.Find(BytesOf(name))));
           })
      .def("dtype", &NumpyDType)
      .def("read", &ReadBox)
      .def("read_text", &ReadString)
      .def("read_all", &ReadAll);
  module.def("read_metadata", [](py::handle path) {
    const std::string text = PathOf(path, "path");
    return Unlocked([&] { return ReadMetadata(text); });
  });
}

}  // namespace belay::python
