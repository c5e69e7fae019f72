# tests/option_pages.cc writes this file.
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Optional, TypedDict, Union

import belay

class SaveOptions(TypedDict, total=False):
  file_layout: Literal["shared", "per_node", "per_task"]
  array_layout: Literal["auto", "canonical"]
  max_shard_size: int
  sharding_policy: belay.ShardingPolicy
  args: Mapping[str, Mapping[str, Any]]
  float32_as_bfloat16: bool
  overwrite: bool
  checksums: bool
  check_replicas: Optional[bool]
  strict_dtype: bool
  metadata: Mapping[str, str]
  transfer: Literal["collective", "independent", "hdf5", "two_phase", "auto"]
  max_bytes_in_flight: int
  durable: bool
  read_back: bool
  mpi_io_hints: Mapping[str, str]
  before_commit: Callable[[str, int], Any]
  after_commit: Callable[[belay.SaveResult], Any]
  deadline_seconds: float

class RestoreOptions(TypedDict, total=False):
  allow_dtype_cast: bool
  allow_shape_mismatch: bool
  missing: Literal["error", "warn", "collect", "ignore"]
  unexpected: Literal["error", "warn", "collect", "ignore"]
  mismatched: Literal["error", "warn", "collect", "ignore"]
  strict_dtype: bool
  args: Mapping[str, Mapping[str, Any]]
  checksums: bool
  read_sharing: Literal["auto", "each_rank", "once"]
  primary_replica: Optional[int]
  max_bytes_in_flight: int
  deadline_seconds: float

class AsyncOptions(TypedDict, total=False):
  max_staging_bytes: int
  initial_staging_bytes: int
  max_bytes_per_second: int
  snapshot: Literal["in_call", "lazy"]

class ManagerOptions(SaveOptions, total=False):
  prefix: str
  save_interval_steps: int
  save_on_steps: Sequence[int]
  save_first_step: bool
  mtbf_seconds: float
  overhead_budget: float
  async_save: Union[bool, AsyncOptions]
  tolerated_failures: int
  stop_signals: Sequence[Union[int, str]]
  stop_at_time_limit: bool
  time_limit_poll_seconds: float
  end_time: Optional[float]
  final_save_margin: float
  max_to_keep: Optional[int]
  keep_period: Optional[int]
  keep_time_interval: Optional[float]
  keep_checkpoint_every_n_hours: Optional[float]
  best_metric: str
  best_mode: Literal["max", "min"]
  keep_checkpoints_without_metrics: bool
  read_only: bool
  remove_leftovers: bool
  restore_match: Literal["anything", "nontrivial", "existing_objects", "consumed"]
  newer_steps: Literal["refuse", "set_aside", "delete"]
  metadata: Mapping[str, str]

class ExportOptions(TypedDict, total=False):
  keys: Sequence[str]
  metadata: Mapping[str, str]
  leave_out_others: bool
  max_file_bytes: int
  overwrite: bool
  checksums: bool
  durable: bool
  max_bytes_in_flight: int
  deadline_seconds: float
  progress: Union[bool, Callable[[int, int], Any]]
