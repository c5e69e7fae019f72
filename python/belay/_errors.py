"""The exception of the package."""


class Error(RuntimeError):
  """An error of belay, the same on all ranks.

  Attributes
  ----------
  code : str
      What kind of error it is: "INVALID_ARGUMENT", "FAILED_PRECONDITION",
      "NOT_FOUND", "ALREADY_EXISTS", "OUT_OF_RANGE", "RESOURCE_EXHAUSTED",
      "PERMISSION_DENIED", "DATA_LOSS", "DEADLINE_EXCEEDED", "UNAVAILABLE",
      "UNIMPLEMENTED", "CANCELLED" or "INTERNAL".

  Notes
  -----
  If an exception of Python caused it, such as a TypeError in a conversion, that
  exception is its ``__cause__`` on the rank where it happened.
  """

  def __init__(self, message, code="UNKNOWN"):
    super().__init__(message, code)
    self.code = code

  def __str__(self):
    return self.args[0]
