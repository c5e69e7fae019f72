"""belay.torch: states of modules and optimizers, in the cuts of trainers."""

import ast
import random
import unittest

import numpy
from mpi_case import COMM, MpiCase, main

import belay

try:
  import torch

  import belay.torch as states
  from belay.torch import FlatShards, Replicate, Shard
  from torch_training import train
except ImportError:
  torch = None


def train_alike(model, optimizer, step):
  """Makes a step that is equal on all ranks, and draws no random numbers."""
  x = torch.arange(96.0).reshape(16, 6).sin() * step
  optimizer.zero_grad()
  loss = (model(x) - x).square().mean()
  loss.backward()
  optimizer.step()
  return loss.item()


def new_model(seed=1):
  torch.manual_seed(seed)
  return torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.BatchNorm1d(12),
                             torch.nn.Tanh(), torch.nn.Linear(12, 6))


@unittest.skipIf(torch is None, "no PyTorch")
class RunTest(MpiCase):
  """belay.torch.Run: a trainer that draws from every generator."""

  def trainer(self, comm=COMM, **options):
    model = new_model()
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(adam, [2, 4])
    shuffle, drops = torch.Generator(), numpy.random.Generator(
        numpy.random.MT19937())
    torch.manual_seed(comm.rank + 1)
    shuffle.manual_seed(comm.rank + 2)
    progress = {"step": 0}
    run = states.Run(comm, self.run_dir, model, adam,
                     others={"scheduler": scheduler}, state=progress,
                     generators={"shuffle": shuffle, "drops": drops}, **options)

    def advance():
      progress["step"] += 1
      loss = train_alike(model, adam, progress["step"])
      scheduler.step()
      drawn = (torch.rand(1).item(), numpy.random.random(), random.random(),
               torch.rand(1, generator=shuffle).item(), drops.random())
      return loss, adam.param_groups[0]["lr"], drawn

    return run, progress, advance

  def test_goes_on(self):
    run, progress, advance = self.trainer(save_interval_steps=3)
    with run:
      self.assertIsNone(run.restore())
      for _ in range(3):
        advance()
        run.step(progress["step"])
    expected = [advance() for _ in range(3)]
    run, progress, advance = self.trainer()
    with run:
      self.assertEqual(run.restore(), 3)
      self.assertEqual(progress, {"step": 3})
      self.assertEqual([advance() for _ in range(3)], expected)

  def test_on_fewer_ranks(self):
    run, progress, advance = self.trainer()
    with run:
      advance()
      run.step(1)
    expected = advance()
    part = COMM.Split(0 if self.rank == 0 else 1)
    if self.rank == 0:
      run, progress, advance = self.trainer(part)
      with run:
        self.assertEqual(run.restore(), 1)
        self.assertEqual(progress, {"step": 1})
        loss, rate, drawn = advance()
        self.assertEqual((loss, rate), expected[:2])
        if self.size > 1:
          self.assertNotEqual(drawn[0], expected[2][0])
    part.Free()

  def test_a_generator_that_was_added(self):
    model = new_model()
    with states.Run(COMM, self.run_dir, model) as run:
      run.step(1)
      drawn = torch.rand(1).item()
    added = {kind.__name__: numpy.random.Generator(kind()) for kind in
             (numpy.random.PCG64, numpy.random.Philox, numpy.random.SFC64)}
    with states.Run(COMM, self.run_dir, model, generators=added) as run:
      run.restore()
      self.assertEqual(torch.rand(1).item(), drawn)
      run.step(2)
      drawn = {name: one.random() for name, one in added.items()}
      run.restore()
      self.assertEqual({name: one.random() for name, one in added.items()},
                       drawn)

  def test_others_that_are_not_stored(self):
    model = new_model()
    adam = torch.optim.Adam(model.parameters())
    with states.Run(COMM, self.run_dir, model, adam) as run:
      run.step(1)
    scheduler = torch.optim.lr_scheduler.StepLR(adam, 2)
    with states.Run(COMM, self.run_dir, model, adam,
                    others={"scheduler": scheduler}) as run:
      self.assert_fails("NOT_FOUND", "others/scheduler", run.restore)

  def test_without_an_optimizer(self):
    model = new_model()
    with states.Run(COMM, self.run_dir, model) as run:
      run.step(1)
    again = new_model(2)
    with states.Run(COMM, self.run_dir, again) as run:
      self.assertEqual(run.restore(), 1)
    for one, other in zip(model.parameters(), again.parameters()):
      self.assertTrue(torch.equal(one, other))


@unittest.skipIf(torch is None, "no PyTorch")
class ReplicatedTest(MpiCase):

  def optimizers(self):
    yield lambda model: torch.optim.Adam(model.parameters(), lr=0.01)
    yield lambda model: torch.optim.AdamW(
        [{"params": model[0].parameters(), "weight_decay": 0.5},
         {"params": model[3].parameters(), "lr": 0.1}], lr=0.01, amsgrad=True)
    yield lambda model: torch.optim.SGD(model.parameters(), lr=0.1,
                                        momentum=0.9)
    yield lambda model: torch.optim.SGD(model.parameters(), lr=0.1)

  def test_goes_on(self):
    for number, make in enumerate(self.optimizers()):
      model = new_model()
      optimizer = make(model)
      train(model, optimizer, range(5))
      belay.save(COMM, self.run_dir, number,
                 states.state_dict(model, optimizer))
      expected = train(model, optimizer, range(5, 10))
      again = new_model(2)
      other = make(again)
      weights = [one.clone() for one in again.parameters()]
      blank = states.blank_state_dict(again, other)
      for one, before in zip(again.parameters(), weights):
        self.assertTrue(torch.equal(one, before))
      self.assertEqual(len(other.state), 0)
      restored = belay.restore(COMM, self.run_dir, blank, step=number)
      states.load_state_dict(again, other, restored.state)
      self.assertEqual(train(again, other, range(5, 10)), expected)

  def test_keys(self):
    model = new_model()
    adam = torch.optim.Adam(model.parameters())
    train(model, adam, [0])
    belay.save(COMM, self.run_dir, 0, states.state_dict(model, adam))
    reader = belay.open(self.run_dir)
    self.assertEqual(reader["model/3.weight"].shape, (6, 12))
    self.assertEqual(reader["optimizer/state/3.weight/exp_avg"].shape, (6, 12))
    self.assertEqual(reader["optimizer/groups/0/lr"][()], 0.001)

  def restored(self, make, step=0, frozen=(), seed=7, **options):
    """Returns a new model and its optimizer, after a restore."""
    model = new_model(seed)
    for name in frozen:
      model.get_parameter(name).requires_grad_(False)
    optimizer = make(model)
    blank = states.blank_state_dict(model, optimizer)
    found = belay.restore(COMM, self.run_dir, blank, step=step, **options)
    states.load_state_dict(model, optimizer, found.state)
    return model, optimizer

  def test_parameters_without_state(self):
    """Frozen ones, and all before the first step."""
    make = lambda model: torch.optim.Adam(model.parameters(), lr=0.01)
    for step, (frozen, steps) in enumerate(((["0.weight"], 3), ([], 0))):
      model = new_model()
      for name in frozen:
        model.get_parameter(name).requires_grad_(False)
      adam = make(model)
      train(model, adam, range(steps))
      belay.save(COMM, self.run_dir, step, states.state_dict(model, adam))
      expected = train(model, adam, range(3, 6))
      for options in ({}, {"missing": "ignore"}):
        again = self.restored(make, step, frozen, **options)
        self.assertEqual(train(*again, range(3, 6)), expected)
    # Back to the first step, with a manager; what the step lacks is dropped.
    with belay.CheckpointManager(COMM, self.run_dir) as manager:
      found = manager.restore(states.blank_state_dict(model, adam), step=1)
    self.assertEqual(found.result.missing, [])
    states.load_state_dict(model, adam, found.state)
    self.assertEqual(len(adam.state), 0)
    self.assertEqual(train(model, adam, range(3, 6)), expected)

  def test_the_model_must_be_stored(self):
    model = new_model()
    belay.save(COMM, self.run_dir, 0, states.state_dict(model))
    adam = torch.optim.Adam(model.parameters())
    blank = states.blank_state_dict(model, adam)
    self.assert_fails("NOT_FOUND", "optimizer/groups", belay.restore, COMM,
                      self.run_dir, blank)
    states.load_state_dict(model, adam, blank)  # not restored: no change
    self.assertEqual(len(adam.state), 0)

  def test_hyperparameters_of_other_types(self):
    model = new_model()
    sgd = torch.optim.SGD(model.parameters(), lr=1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(sgd, 1, 0.5)
    sgd.param_groups[0]["betas"] = (numpy.float64(0.5), 0.25)
    train(model, sgd, [0])
    schedule.step()
    belay.save(COMM, self.run_dir, 0, states.state_dict(model, sgd))
    for options in ({}, {"allow_dtype_cast": True}):
      _, other = self.restored(lambda one: torch.optim.SGD(
          one.parameters(), lr=1, momentum=0.9, foreach=True), **options)
      for key in ("lr", "momentum", "foreach", "initial_lr", "betas"):
        self.assertEqual(other.param_groups[0][key],
                         sgd.param_groups[0][key], key)

  def test_other_groups_and_settings(self):
    model = new_model()
    sgd = torch.optim.SGD([{"params": model[0].parameters()},
                           {"params": model[3].parameters()}], lr=0.1,
                          momentum=0.9)
    train(model, sgd, range(2))
    belay.save(COMM, self.run_dir, 0, states.state_dict(model, sgd))
    with self.assertRaisesRegex(ValueError, "has 1, stored are 2"):
      self.restored(lambda one: torch.optim.SGD(one.parameters(), lr=0.1))
    # Momentum that this optimizer does not have yet: restored or an error.
    expected = train(model, sgd, range(2, 4))
    try:
      again = self.restored(lambda one: torch.optim.SGD(
          [{"params": one[0].parameters()}, {"params": one[3].parameters()}],
          lr=0.1))
      self.assertEqual(train(*again, range(2, 4)), expected)
    except ValueError as error:
      self.assertIn("momentum_buffer", str(error))

  def test_modules_with_state_of_their_own(self):
    """get_extra_state, and a state_dict that holds copies."""

    class Counter(torch.nn.Linear):
      count = 0

      def get_extra_state(self):
        return {"count": self.count}

      def set_extra_state(self, state):
        self.count = state["count"]

      def state_dict(self, *args, **options):
        found = super().state_dict(*args, **options)
        found["weight"] = found["weight"].clone()
        return found

    one, other = Counter(2, 2), Counter(2, 2)
    one.count = 7
    belay.save(COMM, self.run_dir, 0, states.state_dict(one),
               check_replicas=False)
    found = belay.restore(COMM, self.run_dir, states.blank_state_dict(other))
    states.load_state_dict(other, None, found.state)
    self.assertEqual(other.count, 7)
    numpy.testing.assert_array_equal(
        belay.open(self.run_dir)["model/weight"], other.weight.detach())

  def test_optimizers_of_other_kinds(self):

    class Scaled(torch.optim.SGD):
      """Has an attribute that PyTorch does not copy."""

      def __init__(self, parameters):
        super().__init__(parameters, lr=0.1, momentum=0.9)
        self.scale = 0.5

      def step(self, closure=None):
        for group in self.param_groups:
          group["lr"] = 0.1 * self.scale
        return super().step(closure)

    model = new_model()
    optimizer = Scaled(model.parameters())
    train(model, optimizer, range(2))
    belay.save(COMM, self.run_dir, 0, states.state_dict(model, optimizer))
    expected = train(model, optimizer, range(2, 4))
    again = self.restored(lambda one: Scaled(one.parameters()))
    self.assertEqual(train(*again, range(2, 4)), expected)
    table = torch.nn.Embedding(3, 2, sparse=True)
    sparse = torch.optim.SparseAdam(list(table.parameters()))
    blank = states.blank_state_dict(table, sparse)["optimizer"]["state"].value
    self.assertEqual(blank["weight"]["exp_avg"].shape, (3, 2))
    self.assertEqual(len(sparse.state), 0)

  def test_closure(self):
    model = new_model()
    with self.assertRaisesRegex(ValueError, "LBFGS: its steps need a closure"):
      states.blank_state_dict(model, torch.optim.LBFGS(model.parameters()))


@unittest.skipIf(torch is None, "no PyTorch")
class CutTest(MpiCase):

  def part(self, tensor, dim, rank, size):
    parts = list(tensor.chunk(size, dim))
    empty = tensor.narrow(dim, 0, 0)
    return (parts + [empty] * size)[rank].clone()

  def test_tensor_parallel(self):
    """Cut by columns and rows, restored whole."""
    model = new_model()
    model[1].running_mean += 3
    placements = {r"0\..*": [Replicate(), Shard(0)],
                  r"3\.weight": [Replicate(), Shard(1)]}
    local = new_model(3)
    local[1].load_state_dict(model[1].state_dict())
    local[3].bias.data = model[3].bias.data
    for name, dim in {"0.weight": 0, "0.bias": 0, "3.weight": 1}.items():
      whole = model.get_parameter(name).data
      local.get_parameter(name).data = self.part(whole, dim, self.rank,
                                                 self.size)
    belay.save(COMM, self.run_dir, 0, states.state_dict(
        local, placements=placements, rank=self.rank,
        mesh=belay.Mesh({"data": 1, "model": self.size})))
    other = new_model(4)
    belay.restore(COMM, self.run_dir, states.blank_state_dict(other))
    for name, tensor in model.state_dict().items():
      self.assertTrue(torch.equal(other.state_dict()[name], tensor), name)

  def test_optimizer_is_cut_alike(self):
    whole = torch.nn.Linear(6, 12)
    mesh = belay.Mesh({"model": self.size})
    local = torch.nn.Linear(6, 12 // self.size)
    adam = torch.optim.Adam(local.parameters())
    train(torch.nn.Sequential(local, torch.nn.Linear(12 // self.size, 6)), adam,
          [0])
    cuts = dict(placements={".*": [Shard(0)]}, mesh=mesh, rank=self.rank)
    belay.save(COMM, self.run_dir, 0, states.state_dict(local, adam, **cuts))
    other = torch.optim.Adam(whole.parameters())
    blank = states.blank_state_dict(whole, other)
    restored = belay.restore(COMM, self.run_dir, blank)
    states.load_state_dict(whole, other, restored.state)
    begin = 12 // self.size * self.rank
    rows = slice(begin, begin + 12 // self.size)
    self.assertTrue(torch.equal(whole.weight[rows], local.weight))
    for key in ("exp_avg", "exp_avg_sq"):
      self.assertTrue(torch.equal(other.state[whole.weight][key][rows],
                                  adam.state[local.weight][key]))
    self.assertEqual(other.state[whole.bias]["step"],
                     adam.state[local.bias]["step"])

  def test_parts_that_are_not_equal(self):
    """As torch.chunk cuts them, with replicas."""
    whole = torch.arange(7.0 * 5).reshape(7, 5)
    data = 2 if self.size % 2 == 0 else 1
    mesh = belay.Mesh({"data": data, "model": self.size // data})
    place = self.rank % (self.size // data)
    mine = self.part(whole, 1, place, self.size // data)
    value = states.cut(mine, mesh, [Replicate(), Shard(-1)], self.rank, (7, 5))
    belay.save(COMM, self.run_dir, 0, {"w": value})
    self.assert_equal_arrays(belay.open(self.run_dir)["w"], whole.numpy())
    mine.zero_()
    belay.restore(COMM, self.run_dir, {"w": value})
    self.assertTrue(torch.equal(
        mine, self.part(whole, 1, place, self.size // data)))

  def test_placements_of_all(self):
    """Numbers, such as of BatchNorm, are not cut."""
    norm = torch.nn.BatchNorm1d(2)
    cuts = dict(placements={".*": [Shard(0)]})
    found = states.state_dict(norm, mesh=belay.Mesh({"x": 1}), **cuts)["model"]
    self.assertIsInstance(found["weight"], belay.LaidOut)
    self.assertIs(found["num_batches_tracked"].dim(), 0)
    with self.assertRaisesRegex(ValueError, "need the mesh"):
      states.state_dict(norm, **cuts)

  def test_wrong_placements(self):
    tensor, mesh = torch.zeros(4, 4), belay.Mesh({"x": 2, "y": 2})
    for placements in ([Shard(0)], [Shard(0), Shard(0)], [Shard(2), Shard(0)],
                       [Shard(0), "y"]):
      with self.assertRaisesRegex(ValueError, "placements"):
        states.cut(tensor, mesh, placements, 0)


@unittest.skipIf(torch is None, "no PyTorch")
class FlatTest(MpiCase):

  def test_flat_shards(self):
    """Saved in ranges on all ranks, restored in ranges on one and whole."""
    model = new_model()
    named = dict(model.named_parameters())
    shards = FlatShards(named, self.rank, self.size, multiple=4)
    self.assertEqual(shards.length % 4, 0)
    self.assertEqual(shards.numel, sum(one.numel() for one in named.values()))
    mine = shards.take(named.values())
    belay.save(COMM, self.run_dir, 0, {"exp_avg": shards.range(mine)})
    for name, tensor in named.items():
      self.assert_equal_arrays(belay.open(self.run_dir)[f"exp_avg/{name}"],
                               tensor.detach().numpy())
    alone = FlatShards({name: tuple(one.shape) for name, one in named.items()},
                       0, 1)
    flat = torch.zeros(alone.length)
    belay.restore(COMM, self.run_dir, {"exp_avg": alone.range(flat)})
    other = new_model(5)
    alone.put(flat, other.parameters())
    for one, again in zip(model.parameters(), other.parameters()):
      self.assertTrue(torch.equal(one, again))
    blank = {name: torch.zeros_like(one) for name, one in named.items()}
    belay.restore(COMM, self.run_dir, {"exp_avg": blank})
    self.assertTrue(torch.equal(blank["0.weight"], model[0].weight))

  def test_bfloat16(self):
    shards = FlatShards({"w": (3, 5)}, self.rank, self.size)
    mine = torch.arange(shards.begin, shards.end).to(torch.bfloat16)
    belay.save(COMM, self.run_dir, 0, {"m": shards.range(mine)})
    self.assert_equal_arrays(belay.open(self.run_dir)["m/w"],
                             numpy.arange(15, dtype="f4").reshape(3, 5))


@unittest.skipIf(torch is None, "no PyTorch")
class StubTest(unittest.TestCase):

  def test_names_and_docstrings(self):
    with open(states.__file__ + "i", encoding="utf-8") as file:
      nodes = {node.name: node for node in ast.parse(file.read()).body
               if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    self.assertEqual(set(nodes), set(states.__all__))
    for name, node in nodes.items():
      found = getattr(states, name)
      self.assertTrue(found.__doc__, name)
      for item in ast.walk(node):
        if isinstance(item, ast.FunctionDef) and item.name != name:
          self.assertTrue(hasattr(found, item.name), (name, item.name))
          if not item.name.startswith("_"):
            self.assertTrue(getattr(found, item.name).__doc__, item.name)


if __name__ == "__main__":
  main()
