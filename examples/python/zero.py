"""A character model in PyTorch: data parallel, with ZeRO-1, on any ranks.

  mpirun -n 4 python3 zero.py run --text ../char_lm --steps 60
  mpirun -n 3 python3 zero.py run --text ../char_lm --steps 90   # continues

All ranks hold the model. Each keeps the state of Adam for its range of the
concatenated parameters, and updates only that range. A checkpoint has an array
for each parameter, so it restores into the ranges of any other number of ranks.

The losses are the same to the last bit, however often the job was killed and on
however many ranks it continued: a step always has the same microbatches, and
their gradients are added in the same order.
"""

import argparse
import os
import pathlib
import signal

import numpy
import torch
from mpi4py import MPI

import belay
import belay.torch

CONTEXT = 16  # characters that the model sees
MICROBATCHES, WINDOWS = 12, 8  # per step; windows of text in each
RATE, BETA1, BETA2, EPSILON = 3e-3, 0.9, 0.99, 1e-8


class Text:
  """The characters of a folder's files, as numbers."""

  def __init__(self, folder):
    files = sorted(path for path in pathlib.Path(folder).iterdir()
                   if path.is_file())
    data = b"".join(path.read_bytes() for path in files)
    characters, numbers = numpy.unique(
        numpy.frombuffer(data, "u1"), return_inverse=True)
    self.vocabulary = len(characters)
    self.tokens = torch.from_numpy(numbers.astype("int64"))

  def microbatch(self, step, number):
    """Returns windows and the next character of each."""
    random = numpy.random.default_rng((step, number))
    begins = random.integers(0, len(self.tokens) - CONTEXT, WINDOWS)
    windows = torch.stack([self.tokens[begin:begin + CONTEXT + 1]
                           for begin in begins.tolist()])
    return windows[:, :-1], windows[:, -1]


def new_model(vocabulary):
  torch.manual_seed(1)
  return torch.nn.Sequential(
      torch.nn.Embedding(vocabulary, 12), torch.nn.Flatten(),
      torch.nn.Linear(CONTEXT * 12, 48), torch.nn.Tanh(),
      torch.nn.Linear(48, vocabulary))


class ZeroAdam:
  """Adam, of which each rank has one range of the parameters."""

  def __init__(self, comm, model):
    self.comm = comm
    self.parameters = list(model.parameters())
    self.shards = belay.torch.FlatShards(dict(model.named_parameters()),
                                         comm.rank, comm.size)
    self.exp_avg = torch.zeros(self.shards.length)
    self.exp_avg_sq = torch.zeros(self.shards.length)

  def state(self):
    """Returns the state to save and restore."""
    return {"exp_avg": self.shards.range(self.exp_avg),
            "exp_avg_sq": self.shards.range(self.exp_avg_sq)}

  def update(self, step, gradient):
    """Makes a step with this rank's range of the gradient."""
    # Each operation rounds once, independent of the element's position.
    self.exp_avg.mul_(BETA1).add_(gradient * (1 - BETA1))
    self.exp_avg_sq.mul_(BETA2).add_(gradient * gradient * (1 - BETA2))
    scale = RATE / (1 - BETA1**step)
    root = (self.exp_avg_sq / (1 - BETA2**step)).sqrt_().add_(EPSILON)
    mine = self.shards.take(self.parameters) - self.exp_avg * scale / root
    whole = numpy.empty(self.shards.length * self.comm.size, "f4")
    self.comm.Allgather(mine.numpy(), whole)
    self.shards.put(torch.from_numpy(whole), self.parameters)


class Trainer:
  """The work of one rank."""

  def __init__(self, comm, text):
    self.comm, self.text = comm, text
    self.model = new_model(text.vocabulary)
    self.adam = ZeroAdam(comm, self.model)
    self.cuts = [MICROBATCHES * rank // comm.size
                 for rank in range(comm.size + 1)]

  def state(self, step):
    return {"model": self.model.state_dict(), "adam": self.adam.state(),
            "step": step}

  def gradients(self, step):
    """Returns losses and gradients of this rank's microbatches."""
    shards = self.adam.shards
    numbers = range(self.cuts[self.comm.rank], self.cuts[self.comm.rank + 1])
    flat = numpy.zeros((len(numbers), shards.length * self.comm.size), "f4")
    losses = []
    for row, number in enumerate(numbers):
      windows, targets = self.text.microbatch(step, number)
      self.model.zero_grad(set_to_none=True)
      loss = torch.nn.functional.cross_entropy(self.model(windows), targets)
      loss.backward()
      losses.append(loss.item())
      flat[row, :shards.numel] = torch.cat([
          one.grad.reshape(-1) for one in self.adam.parameters]).numpy()
    return losses, flat

  def train(self, step):
    """Makes a step; returns its loss."""
    losses, flat = self.gradients(step)
    length, size = self.adam.shards.length, self.comm.size
    send = numpy.ascontiguousarray(
        flat.reshape(len(flat), size, length).swapaxes(0, 1))
    # In order of microbatches, because those of a rank follow those of the rank
    # before.
    received = numpy.empty((MICROBATCHES, length), "f4")
    counts = numpy.diff(self.cuts) * length
    self.comm.Alltoallv([send, [len(flat) * length] * size], [received, counts])
    gradient = received[0]
    for one in received[1:]:
      gradient = gradient + one
    self.adam.update(step, torch.from_numpy(gradient / MICROBATCHES))
    every = [loss for part in self.comm.allgather(losses) for loss in part]
    return sum(every) / MICROBATCHES


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("directory")
  parser.add_argument("--text", required=True, help="a folder of text files")
  parser.add_argument("--steps", type=int, default=100)
  parser.add_argument("--save-every", type=int, default=20)
  parser.add_argument("--losses", help="a file that gets a line per step")
  parser.add_argument("--die-at", type=int, help="kills the job in that step")
  flags = parser.parse_args()
  torch.set_num_threads(1)
  comm = MPI.COMM_WORLD
  trainer = Trainer(comm, Text(flags.text))
  first = 1
  restored = belay.restore_latest(comm, flags.directory,
                                          trainer.state(0))
  if restored:
    first = restored.state["step"] + 1
    if comm.rank == 0:
      print(f"going on from step {first - 1} on {comm.size} ranks", flush=True)
  loss = None
  for step in range(first, flags.steps + 1):
    if step == flags.die_at and comm.rank == comm.size - 1:
      os.kill(os.getpid(), signal.SIGKILL)
    loss = trainer.train(step)
    if flags.losses and comm.rank == 0:
      with open(flags.losses, "a", encoding="utf-8") as file:
        file.write(f"{step} {loss.hex()}\n")
    if step % flags.save_every == 0:
      belay.save(comm, flags.directory, step, trainer.state(step))
  if comm.rank == 0 and loss is not None:
    print(f"step {flags.steps}: loss {loss:.4f}")


if __name__ == "__main__":
  main()
