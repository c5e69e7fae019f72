"""Tensors of PyTorch on the CPU, where a Python has it."""

import unittest

import numpy
from mpi_case import COMM, MpiCase, main

import belay

try:
  import torch
  from torch_training import train
except ImportError:
  torch = None


def new_model():
  torch.manual_seed(1)
  model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8),
                              torch.nn.Tanh(), torch.nn.Linear(8, 1))
  adam = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1)
  return model, adam


@unittest.skipIf(torch is None, "no PyTorch")
class TorchTest(MpiCase):

  def test_training_goes_on(self):
    model, adam = new_model()
    train(model, adam, range(5))
    belay.save(COMM, self.run_dir, 5, {"model": model.state_dict(),
                                       "adam": adam.state_dict()})
    expected = train(model, adam, range(5, 10))
    again, other = new_model()
    train(again, other, [100])  # makes the state of the optimizer
    restored = belay.restore(COMM, self.run_dir, {
        "model": again.state_dict(), "adam": other.state_dict()})
    other.load_state_dict(restored.state["adam"])
    self.assertEqual(train(again, other, range(5, 10)), expected)
    stored = belay.open(self.run_dir)
    self.assertEqual(stored["model/0.weight"].shape, (8, 4))
    self.assertEqual(stored["adam/param_groups/0/lr"][()], 0.01)

  def test_tensors_without_elements_of_their_own(self):
    eye = torch.eye(3)
    cases = [(torch.zeros(3, device="meta"), 'on the device "meta"'),
             (eye.to_sparse(), "the tensor is sparse (torch.sparse_coo)"),
             (eye.to_sparse_csr(), "the tensor is sparse (torch.sparse_csr)"),
             (torch.quantize_per_tensor(eye, 0.1, 0, torch.qint8),
              "the tensor is quantized"),
             (eye.to(torch.complex64).conj(), "resolve_conj")]
    for tensor, text in cases:
      for value in (tensor, belay.Piece(tensor, (3, 3), (0, 0))):
        for call in (belay.save, belay.restore):
          state = {"model": {"w": value}}
          arguments = (0, state) if call is belay.save else (state,)
          error = self.assert_fails("INVALID_ARGUMENT", text, call, COMM,
                                    self.run_dir, *arguments)
          self.assertIn('"model/w": ', str(error))

  def test_tensors(self):
    whole = torch.arange(24.0).reshape(4, 6)
    state = {"t": whole.t(), "b": whole.to(torch.bfloat16), "l": whole.long(),
             "grad": torch.nn.Parameter(whole + 1), "n": torch.tensor(3),
             "h": whole.half()[:, ::2], "q": whole.bool()}
    belay.save(COMM, self.run_dir, 0, state)
    blank = {key: torch.zeros_like(value) for key, value in state.items()}
    blank["grad"] = torch.nn.Parameter(torch.zeros(4, 6))
    blank["h"] = torch.zeros(4, 6, dtype=torch.half)[:, 1::2]
    found = belay.restore(COMM, self.run_dir, blank).state
    for key, value in state.items():
      self.assertIs(found[key], blank[key])
      self.assertEqual(found[key].dtype, value.dtype)
      self.assertTrue(torch.equal(found[key], value), key)
    numpy.testing.assert_array_equal(belay.open(self.run_dir)["b"][...],
                                     whole.numpy())

  def test_cut(self):
    mine = torch.full((2, 3), float(self.rank), dtype=torch.bfloat16)
    piece = belay.Piece(mine, (2 * self.size, 3), (2 * self.rank, 0))
    rows = belay.Rows(torch.ones(self.rank, 2))
    belay.save(COMM, self.run_dir, 0, {"w": piece, "r": rows})
    found = torch.zeros(2 * self.size, 3, dtype=torch.bfloat16)
    belay.restore(COMM, self.run_dir, {"w": found})
    self.assertEqual(found[:, 0].tolist(),
                     [rank for rank in range(self.size) for _ in range(2)])
    into = belay.Rows(torch.zeros(0, 2))
    found = belay.restore(COMM, self.run_dir, {"r": into}).state["r"].array
    self.assertIsInstance(found, torch.Tensor)
    self.assert_equal_arrays(found, numpy.ones((self.rank, 2), "f4"))
    own = {"own": belay.PerRank({"a": torch.full((self.rank,), 2),
                                 "b": torch.tensor(self.rank)})}
    belay.save(COMM, self.run_dir, 2, own)
    found = belay.restore(COMM, self.run_dir, own, step=2).state["own"].value
    for key, value in own["own"].value.items():
      self.assertIsInstance(found[key], torch.Tensor)
      self.assertTrue(torch.equal(found[key], value))
    self.assert_fails("INVALID_ARGUMENT", "no dtype for these rows", belay.save,
                      COMM, self.run_dir, 1, {"r": belay.Rows(mine)})


if __name__ == "__main__":
  main()
