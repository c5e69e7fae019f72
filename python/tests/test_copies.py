"""Exports, imports, copies and checks of steps; progress; simulations."""

import json
import os
import pathlib
import struct
import tempfile
import threading
import unittest.mock

import numpy
from mpi_case import COMM, MpiCase, main

import belay


class CopyCase(MpiCase):

  def setUp(self):
    super().setUp()
    self.values = numpy.arange(6000, dtype="float32").reshape(60, 100)
    begin, end = (60 * (self.rank + one) // self.size for one in (0, 1))
    belay.save(COMM, self.run_dir, 3, {
        "model": {"w": belay.Piece(self.values[begin:end], (60, 100),
                                   (begin, 0)), "b": numpy.arange(4)},
        "name": "small"})
    self.last = self.rank == self.size - 1
    self.calls = []

  def note(self, done, total):
    self.calls.append((done, total))

  def assert_progress(self):
    """Asserts that all bytes were told, in order."""
    for done, total in self.calls:
      self.assertLessEqual(done, total)
    self.assertEqual(self.calls, sorted(self.calls))
    totals = COMM.allreduce(self.calls[-1][0] if self.calls else 0)
    self.assertGreaterEqual(totals, self.values.nbytes)

  def break_on_last(self, done, total):
    if self.last:
      raise ZeroDivisionError("mine")

  def assert_all_fail(self, call, *args, **options):
    """Asserts that an exception of one rank's progress reaches all."""
    error = self.assert_fails("INVALID_ARGUMENT", "ZeroDivisionError: mine",
                              call, *args, progress=self.break_on_last,
                              **options)
    cause = ZeroDivisionError if self.last else type(None)
    self.assertIs(type(error.__cause__), cause)


class SafetensorsTest(CopyCase):

  def test_there_and_back(self):
    out = os.path.join(self.dir, "out.safetensors")
    result = belay.export_safetensors(
        COMM, self.run_dir, out, keys=["model/.*"], metadata={"format": "pt"},
        progress=self.note)
    self.assertEqual((result.step, result.num_tensors), (3, 2))
    self.assertEqual([file.path for file in result.files], [out])
    self.assert_progress()
    with open(out, "rb") as file:
      header = json.loads(file.read(struct.unpack("<q", file.read(8))[0]))
    self.assertEqual(header["model/w"]["shape"], [60, 100])
    self.assertEqual(header["__metadata__"], {"format": "pt"})
    self.calls.clear()
    imported = belay.import_safetensors(
        COMM, out, os.path.join(self.dir, "again"), 5, file_metadata=False,
        progress=self.note, durable=False)
    self.assert_progress()
    self.assertEqual((imported.num_tensors, imported.saved.step), (2, 5))
    reader = belay.open(os.path.join(self.dir, "again"))
    self.assert_equal_arrays(reader["model/w"], self.values)
    self.assertEqual(sorted(reader), ["model/b", "model/w"])

  def test_files_and_what_is_left_out(self):
    out = pathlib.Path(self.dir, "out")
    self.assert_fails("FAILED_PRECONDITION", "name", belay.export_safetensors,
                      COMM, self.run_dir, out)
    result = belay.export_safetensors(COMM, self.run_dir, out, 3,
                                      leave_out_others=True,
                                      max_file_bytes=20000)
    self.assertEqual(len(result.files), 2)
    self.assertEqual(list(result.left_out), ["name"])
    self.assertTrue(result.index.endswith("model.safetensors.index.json"))
    imported = belay.import_safetensors(COMM, [out], self.run_dir, 4)
    self.assertEqual(imported.num_tensors, 2)

  def test_progress_that_raises(self):
    self.assert_all_fail(belay.export_safetensors, COMM, self.run_dir,
                         os.path.join(self.dir, "x.safetensors"),
                         keys=["model/.*"])
    COMM.Barrier()
    self.assertEqual(os.listdir(self.dir), ["run"])

    def not_found(done, total):
      if self.last:
        raise belay.Error("", "NOT_FOUND")

    export = [COMM, self.run_dir, os.path.join(self.dir, "x.safetensors")]
    self.assert_fails("NOT_FOUND", "without a text", belay.export_safetensors,
                      *export, keys=["model/.*"], progress=not_found)

    def interrupt(done, total):
      if self.last:
        raise KeyboardInterrupt

    expected = KeyboardInterrupt if self.last else belay.Error
    with self.assertRaises(expected) as caught:
      belay.export_safetensors(*export, keys=["model/.*"], progress=interrupt)
    if not self.last:
      self.assertEqual(caught.exception.code, "CANCELLED")
    belay.export_safetensors(*export, keys=["model/.*"], progress=False)
    out = os.path.join(self.dir, "y.safetensors")
    belay.export_safetensors(COMM, self.run_dir, out, keys=["model/.*"])
    self.assert_all_fail(belay.import_safetensors, COMM, out, self.run_dir, 9)
    self.assertEqual(belay.list_steps(self.run_dir), [3])


class CopyTest(CopyCase):

  def test_copy(self):
    to = os.path.join(self.dir, "copy")
    result = belay.copy_checkpoint(
        COMM, self.run_dir, to, to_step=8, leave_out=["name"],
        progress=self.note, file_layout="per_task",
        args={"model/w": {"dtype": "f16"}})
    self.assert_progress()
    self.assertEqual((result.num_copied, result.num_left_out), (2, 1))
    self.assertEqual((result.saved.step, result.num_made), (8, 0))
    reader = belay.open(to)
    self.assert_equal_arrays(reader["model/w"], self.values.astype("f2"))
    self.assert_all_fail(belay.copy_checkpoint, COMM, self.run_dir, to)
    self.assertEqual(belay.list_steps(to), [8])

  def test_rules(self):
    rules = {"rules": [{"make": {"model/t": {"transpose": "model/w"}}}]}
    file = os.path.join(self.dir, "rules.json")
    if self.rank == 0:
      with open(file, "w", encoding="utf-8") as text:
        json.dump(rules, text)
    COMM.Barrier()
    for step, one in enumerate((rules, file)):
      result = belay.copy_checkpoint(
          COMM, self.run_dir, os.path.join(self.dir, "made"), to_step=step,
          rules=one, scratch=self.dir)
      self.assertEqual(result.num_made, 1)
      reader = belay.open(result.saved.path)
      self.assert_equal_arrays(reader["model/t"], self.values.T)
    with unittest.mock.patch("tempfile.NamedTemporaryFile",
                             side_effect=OSError("full") if self.last else None,
                             wraps=tempfile.NamedTemporaryFile):
      self.assert_fails("INVALID_ARGUMENT", "OSError: full",
                        belay.copy_checkpoint, COMM, self.run_dir, self.dir,
                        to_step=8, rules=rules)
    bad = {"rules": [{}]} if self.last else rules
    self.assert_fails("INVALID_ARGUMENT", "", belay.copy_checkpoint, COMM,
                      self.run_dir, self.dir, rules=bad)

  def test_callbacks_with_other_threads(self):
    """Other threads of Python run on while callbacks are called."""
    end = threading.Event()
    count = [0]

    def spin():
      while not end.is_set():
        count[0] += 1

    spinner = threading.Thread(target=spin)
    spinner.start()
    for step in range(3):
      belay.copy_checkpoint(COMM, self.run_dir, os.path.join(self.dir, "c"),
                            to_step=step, progress=self.note)
    end.set()
    spinner.join()
    self.assertGreater(count[0], 0)

  def test_verify(self):
    path = belay.verify_checkpoint(self.run_dir).path
    self.assertTrue(path.endswith("step_00000003"))
    result = belay.verify_checkpoint(path, progress=self.note)
    self.assertEqual(result.damage, [])
    self.assertEqual(self.calls[-1], (result.nbytes, result.nbytes))

    def broken(done, total):
      belay.open(path)  # may be called there
      raise ZeroDivisionError("mine")

    with self.assertRaises(belay.Error) as caught:
      belay.verify_checkpoint(path, progress=broken)
    self.assertIs(type(caught.exception.__cause__), ZeroDivisionError)
    COMM.Barrier()
    if self.rank == 0:
      [data] = pathlib.Path(path).glob("data_*.h5")
      size = data.stat().st_size
      with open(data, "r+b") as file:
        file.seek(size - 9)
        last = file.read(1)
        file.seek(size - 9)
        file.write(bytes([last[0] ^ 1]))
    COMM.Barrier()
    self.assertEqual(len(belay.verify_checkpoint(path).damage), 1)
    self.assert_fails("NOT_FOUND", "", belay.verify_checkpoint, "nowhere")

  def test_progress_true(self):
    bars = []

    class Tqdm:

      def __init__(self, total, **options):
        self.n, self.total, self.closed = 0, total, False
        bars.append(self)

      def update(self, more):
        self.n += more

      def close(self):
        self.closed = True

    module = unittest.mock.Mock(tqdm=Tqdm)
    with unittest.mock.patch.dict("sys.modules", tqdm=module):
      belay.copy_checkpoint(COMM, self.run_dir, os.path.join(self.dir, "c"),
                            progress=True)
    self.assertEqual(len(bars), 1 if self.rank == 0 else 0)
    for bar in bars:
      self.assertEqual((bar.n, bar.closed), (bar.total, True))
    with unittest.mock.patch.dict("sys.modules", tqdm=None):
      with self.maybe_logs() as lines:
        belay.copy_checkpoint(COMM, self.run_dir, os.path.join(self.dir, "c"),
                              to_step=9, progress=True)
    if self.rank == 0:
      self.assertIn("copy: ", "\n".join(lines.output))

  def maybe_logs(self):
    if self.rank == 0:
      return self.assertLogs("belay", "INFO")
    return unittest.mock.MagicMock()

  def test_simulate(self):
    plan = belay.simulate("gpt2-small", "fsdp=4", "tp=2")
    self.assertEqual(plan["parameters"], 124439808)
    self.assertEqual(plan["save"]["ranks"], 4)
    self.assertEqual(sum(plan["save"]["written_bytes"]), plan["save"]["bytes"])
    self.assertEqual(len(plan["restore"]["read_bytes"]), 2)
    self.assertEqual(sum(plan["restore"]["read_bytes"]),
                     plan["restore"]["needed_bytes"])
    self.assertNotIn("restore", belay.simulate("gpt2-small", divide=4))
    self.assertLess(belay.simulate("gpt2-small", weights_only=True)
                    ["save"]["bytes"], plan["save"]["bytes"])
    table = os.path.join(self.dir, f"mine_{self.rank}.tsv")
    with open(table, "w", encoding="utf-8") as file:
      file.write("name\tdtype\tglobal_shape\tpp\nw\tf32\t8,6\tfirst\n")
    plan = belay.simulate(pathlib.Path(table), "dp=2")
    self.assertEqual(plan["parameters"], 48)
    for bad, text in ((dict(model="no-such"), "gpt2-small"),
                      (dict(save="x=1"), "x"), (dict(loud=1), "loud"),
                      (dict(read_sharing="no", restore="dp=2"), "once")):
      with self.assertRaises(belay.Error) as caught:
        belay.simulate(**{"model": "gpt2-small", **bad})
      self.assertIn(text, str(caught.exception))


if __name__ == "__main__":
  main()
