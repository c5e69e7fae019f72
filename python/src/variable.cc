// belay._core.Variable, the implementation of belay.ShardedVariable.

#include "variable.h"

#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "arrays.h"
#include "belay/variable/sharded_variable_ops.h"
#include "belay/variable/sparse_ops.h"
#include "callbacks.h"
#include "comm.h"
#include "errors.h"
#include "options.h"
#include "save_restore.h"

namespace belay::python {
namespace {

// A variable, its communicator, and the arrays it borrows.
class Variable {
 public:
  Variable(const py::object& comm, ShardedVariable variable,
           std::vector<py::array> given)
      : comm_(comm), variable_(std::move(variable)), given_(std::move(given)) {}

  static std::unique_ptr<Variable> Create(const py::object& comm,
                                          py::handle name, py::handle dtype,
                                          py::handle shape,
                                          py::handle partitioner,
                                          const py::dict& given);
  static std::unique_ptr<Variable> Join(const py::object& comm, py::handle name,
                                        py::handle arrays,
                                        const py::dict& given);

  py::object Read(py::handle index, py::handle to, const py::dict& given);
  void Assign(py::handle op, py::handle value, const py::dict& given);
  void AssignPieces(py::handle op, py::handle pieces, const py::dict& given);
  void AssignSlice(py::handle index, py::handle value, const py::dict& given);
  void Scatter(py::handle op, py::handle indices, py::handle rows,
               const py::dict& given);
  py::object Lookup(py::handle ids, const py::dict& given);
  py::object LookupLists(py::handle row_splits, py::handle ids,
                         py::handle weights, const py::dict& given);

  ShardedVariable& variable() { return variable_; }
  int64_t bytes_sent() const { return bytes_sent_; }

 private:
  // Calls `run` without the lock once `prepare` has succeeded on all ranks.
  // `name` is the name of the call. Collective.
  template <typename Prepare, typename Run>
  auto Together(const char* name, const py::dict& given, Prepare prepare,
                Run run) {
    const double deadline = DeadlineOf(given);
    KeptComm& kept = KeptCommOf(comm_, deadline);
    const CommUse use(kept.is_in_use);
    PrepareTogether({kept.comm, deadline, name, variable_.name()}, prepare);
    const VariableOptions options{.deadline_seconds = deadline,
                                  .bytes_sent = &bytes_sent_};
    const py::gil_scoped_release unlock;
    return run(kept.comm, options);
  }

  // Reads the common options of all calls.
  static void Finish(OptionReader& reader) {
    double deadline = 0;
    reader.Read("deadline_seconds", deadline);
    reader.Finish();
  }

  const py::object comm_;
  ShardedVariable variable_;
  const std::vector<py::array> given_;
  int64_t bytes_sent_ = 0;
};

LookupOptions ReadLookup(OptionReader& reader) {
  LookupOptions options;
  reader.ReadNamed("strategy", options.strategy,
                   {{"div", IdStrategy::kDiv}, {"mod", IdStrategy::kMod}});
  double norm = 0;
  const py::object max_norm = reader.Take("max_norm");
  if (max_norm) {
    norm = py::float_(max_norm);
    options.max_norm = norm;
  }
  return options;
}

std::unique_ptr<Variable> Variable::Create(const py::object& comm,
                                           py::handle name, py::handle dtype,
                                           py::handle shape,
                                           py::handle partitioner,
                                           const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm, DeadlineOf(given));
  const CommUse use(kept.is_in_use);
  std::string text;
  DType type = DType::kF32;
  Shape lengths;
  Partitioner cut;
  CreateOptions options;
  const Call call{kept.comm, DeadlineOf(given), "create a variable", ""};
  PrepareTogether(call, [&] {
    text = py::str(name);
    type = DTypeNamed(dtype);
    if (NumpyOf(type).itemsize() != DTypeSize(type)) {
      ThrowInvalid("dtype: NumPy has no " + std::string(DTypeName(type)));
    }
    lengths = ShapeOf(shape);
    cut = PartitionerOf(partitioner);
    OptionReader reader(given);
    reader.Read("owners", options.owners);
    reader.Read("deadline_seconds", options.deadline_seconds);
    reader.Finish();
  });
  return std::make_unique<Variable>(
      comm,
      UnlockedWithCallbacks(call,
                            [&] {
                              return CreateShardedVariable(
                                  kept.comm, text, type, lengths, cut, options);
                            }),
      std::vector<py::array>());
}

std::unique_ptr<Variable> Variable::Join(const py::object& comm,
                                         py::handle name, py::handle arrays,
                                         const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm, DeadlineOf(given));
  const CommUse use(kept.is_in_use);
  std::string text;
  std::vector<py::array> kept_arrays;
  std::vector<GivenComponent> components;
  VariableOptions options{.deadline_seconds = DeadlineOf(given)};
  const Call call{kept.comm, options.deadline_seconds, "join components", ""};
  PrepareTogether(call, [&] {
    text = py::str(name);
    const py::object checked =
        py::module_::import("belay._variable").attr("components_of")(arrays);
    for (const py::handle one : checked) {
      const auto array = py::reinterpret_borrow<py::array>(one);
      const BoundArray bound = BindArray(Purpose::kRestore, text, {array});
      if (bound.is_copy() || !bound.strides.empty()) {
        ThrowInvalid("component " + std::to_string(components.size()) +
                     ": need a dense row-major array of native byte order");
      }
      kept_arrays.push_back(array);
      components.push_back({.dtype = bound.dtype,
                            .shape = ShapeOf(array),
                            .data = const_cast<void*>(array.data())});
    }
    OptionReader reader(given);
    Finish(reader);
  });
  return std::make_unique<Variable>(comm, Unlocked([&] {
                                      return JoinComponents(
                                          kept.comm, text, components, options);
                                    }),
                                    std::move(kept_arrays));
}

py::object Variable::Read(py::handle index, py::handle to,
                          const py::dict& given) {
  GivenIndex parsed;
  int rank = kEveryRank;
  bool is_mine = true;
  StatusOr<Tensor> read = Together(
      "read", given,
      [&] {
        parsed = IndexOf(index);
        if (!to.is_none()) {
          rank = py::module_::import("operator").attr("index")(to).cast<int>();
          if (rank == kEveryRank) ThrowInvalid("to: need a rank, found -1");
        }
        OptionReader reader(given);
        Finish(reader);
      },
      [&](const Comm& comm, const VariableOptions& options) {
        is_mine = rank == kEveryRank || rank == comm.rank();
        return belay::Read(comm, variable_, parsed.index, rank, options);
      });
  Tensor tensor = ValueOrThrow(std::move(read));
  if (!is_mine) return py::none();
  return ArrayOf(std::move(tensor));
}

void Variable::Assign(py::handle op, py::handle value, const py::dict& given) {
  UpdateOp update = UpdateOp::kUpdate;
  Tensor tensor;
  ThrowIfError(Together(
      "assign", given,
      [&] {
        update = UpdateOpNamed(op);
        tensor = TensorOf(value, variable_.dtype());
        OptionReader reader(given);
        Finish(reader);
      },
      [&](const Comm& comm, const VariableOptions& options) {
        return belay::Assign(comm, variable_, update, tensor, options);
      }));
}

void Variable::AssignPieces(py::handle op, py::handle pieces,
                            const py::dict& given) {
  UpdateOp update = UpdateOp::kUpdate;
  std::deque<Tensor> tensors;
  std::vector<VariablePiece> all;
  ThrowIfError(Together(
      "assign pieces", given,
      [&] {
        update = UpdateOpNamed(op);
        for (const py::handle piece : pieces) {
          const py::tuple pair = py::reinterpret_borrow<py::object>(piece);
          if (pair.size() != 2) {
            ThrowInvalid("pieces: need pairs (offset, array)");
          }
          const Tensor& values =
              tensors.emplace_back(TensorOf(pair[1], variable_.dtype()));
          all.push_back(
              {{ShapeOf(py::object(pair[0])), values.shape()}, &values});
        }
        OptionReader reader(given);
        Finish(reader);
      },
      [&](const Comm& comm, const VariableOptions& options) {
        return belay::AssignPieces(comm, variable_, update, all, options);
      }));
}

void Variable::AssignSlice(py::handle index, py::handle value,
                           const py::dict& given) {
  GivenIndex parsed;
  Tensor tensor;
  ThrowIfError(Together(
      "assign slice", given,
      [&] {
        parsed = IndexOf(index);
        tensor = TensorOf(value, variable_.dtype());
        OptionReader reader(given);
        Finish(reader);
      },
      [&](const Comm& comm, const VariableOptions& options) {
        return belay::AssignSlice(comm, variable_, parsed.index, tensor,
                                  options);
      }));
}

void Variable::Scatter(py::handle op, py::handle indices, py::handle rows,
                       const py::dict& given) {
  UpdateOp update = UpdateOp::kUpdate;
  Tensor numbers;
  Tensor values;
  ThrowIfError(Together(
      "scatter", given,
      [&] {
        update = UpdateOpNamed(op);
        numbers = IndicesOf(indices);
        values = TensorOf(rows, variable_.dtype());
        OptionReader reader(given);
        Finish(reader);
      },
      [&](const Comm& comm, const VariableOptions& options) {
        return belay::Scatter(comm, variable_, update, numbers, values,
                              options);
      }));
}

py::object Variable::Lookup(py::handle ids, const py::dict& given) {
  Tensor numbers;
  LookupOptions lookup;
  StatusOr<Tensor> rows = Together(
      "look up", given,
      [&] {
        numbers = IndicesOf(ids);
        OptionReader reader(given);
        lookup = ReadLookup(reader);
        Finish(reader);
      },
      [&](const Comm& comm, const VariableOptions& options) {
        lookup.deadline_seconds = options.deadline_seconds;
        lookup.bytes_sent = options.bytes_sent;
        return EmbeddingLookup(comm, variable_, numbers, lookup);
      });
  return ArrayOf(ValueOrThrow(std::move(rows)));
}

py::object Variable::LookupLists(py::handle row_splits, py::handle ids,
                                 py::handle weights, const py::dict& given) {
  Tensor splits;
  Tensor numbers;
  std::optional<Tensor> factors;
  Combiner combiner = Combiner::kMean;
  LookupOptions lookup;
  bool safe = false;
  std::optional<int64_t> default_id;
  StatusOr<Tensor> rows = Together(
      "look up lists", given,
      [&] {
        splits = IndicesOf(row_splits);
        numbers = IndicesOf(ids);
        if (!weights.is_none()) factors = TensorOf(weights);
        OptionReader reader(given);
        reader.ReadNamed("combiner", combiner,
                         {{"sum", Combiner::kSum},
                          {"mean", Combiner::kMean},
                          {"sqrtn", Combiner::kSqrtn}});
        reader.Read("safe", safe);
        reader.Read("default_id", default_id);
        lookup = ReadLookup(reader);
        Finish(reader);
        if (default_id && !safe) {
          ThrowInvalid("option default_id: is for safe=True");
        }
      },
      [&](const Comm& comm, const VariableOptions& options) {
        lookup.deadline_seconds = options.deadline_seconds;
        lookup.bytes_sent = options.bytes_sent;
        const IdLists lists{&splits, &numbers, factors ? &*factors : nullptr};
        if (safe) {
          return SafeEmbeddingLookupSparse(comm, variable_, lists, combiner,
                                           default_id, lookup);
        }
        return EmbeddingLookupSparse(comm, variable_, lists, combiner, lookup);
      });
  return ArrayOf(ValueOrThrow(std::move(rows)));
}

// Returns, for each component, its first row, its number of rows, its owner
// and, on the owner, a view of its elements.
py::list ComponentsOf(const py::object& self) {
  const ShardedVariable& variable = self.cast<Variable&>().variable();
  const py::dtype dtype = NumpyOf(variable.dtype());
  py::list all;
  for (const Component& component : variable) {
    const Shape box = variable.ComponentBox(component).shape;
    const std::vector<py::ssize_t> shape(box.begin(), box.end());
    py::object view = py::none();
    if (component.data != nullptr) {
      view = py::array(dtype, shape, component.data, self);
    }
    all.append(py::make_tuple(component.first_row, component.num_rows,
                              component.owner, view));
  }
  return all;
}

}  // namespace

ShardedVariable* VariableIn(py::handle value) {
  static const py::object& type =
      Imported("belay._variable", "ShardedVariable");
  if (!py::isinstance(value, type)) return nullptr;
  return &value.attr("_variable").cast<Variable&>().variable();
}

void DefineVariable(py::module_& module) {
  py::class_<Variable>(module, "Variable")
      .def_static("create", &Variable::Create)
      .def_static("join", &Variable::Join)
      .def("read", &Variable::Read)
      .def("assign", &Variable::Assign)
      .def("assign_pieces", &Variable::AssignPieces)
      .def("assign_slice", &Variable::AssignSlice)
      .def("scatter", &Variable::Scatter)
      .def("lookup", &Variable::Lookup)
      .def("lookup_lists", &Variable::LookupLists)
      .def("components", &ComponentsOf)
      .def_property_readonly(
          "name", [](Variable& self) { return self.variable().name(); })
      .def_property_readonly(
          "shape",
          [](Variable& self) { return TupleOf(self.variable().shape()); })
      .def_property_readonly(
          "dtype",
          [](Variable& self) { return NumpyOf(self.variable().dtype()); })
      .def_property_readonly("bytes_sent", &Variable::bytes_sent);
}

}  // namespace belay::python
