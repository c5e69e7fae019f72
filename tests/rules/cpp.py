"""A small C++ reader for the rule tests: functions, classes, comments.

Understands the C++ of this repository (Google style, formatted), not all of
C++. Text is blanked first (comments, strings, preprocessor lines), so that
braces and words can be trusted; offsets and line numbers stay as they were.
"""

import dataclasses
import re

ACCESS = ("public", "protected", "private")
_NOISE = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|R"(?P<d>\w*)\(.*?\)(?P=d)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'", re.S)
_PREPROCESSOR = re.compile(r'^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', re.M)
_TAG = re.compile(r"(?<![`\w])(Collective|Local|Rank 0 only)"
                  r"(?=[.;:,](?:\s|$))")
_LAMBDA = re.compile(r"(?<![\w\])\[])\[[^\[\]]*\]\s*(?=[({])")
_LAMBDA_REST = re.compile(r"\s*(?:mutable\b|noexcept\b)?\s*"
                          r"(?:->[^{};]*)?\{")


@dataclasses.dataclass
class Function:
  """A declaration or a definition. `body` is None without one."""
  name: str            # with its classes: "Comm::Split"
  line: int
  end_line: int
  comment: str         # the block above it, without slashes
  class_comment: str   # the same of the innermost class, "" outside
  public: bool
  body: str = None
  special: bool = False  # constructor, destructor, operator, friend


def _spaces(match):
  return re.sub(r"[^\n]", " ", match.group())


def blank(text):
  """Returns `text` without comments, literals and preprocessor lines."""
  return _PREPROCESSOR.sub(_spaces, _NOISE.sub(_spaces, text))


def tags(comment):
  """Returns the tags that stand in a comment."""
  return _TAG.findall(comment)


def skip(text, start):
  """Returns the offset just behind the bracket that closes text[start]."""
  close = {"(": ")", "{": "}"}[text[start]]
  depth = 0
  for i in range(start, len(text)):
    depth += (text[i] == text[start]) - (text[i] == close)
    if depth == 0:
      return i + 1
  return len(text)


def split_lambdas(body):
  """Returns the body without its lambdas, then each lambda's body."""
  parts, rest, position = [], [], 0
  while match := _LAMBDA.search(body, position):
    behind = match.end()
    if body[behind] == "(":
      behind = skip(body, behind)
    brace = _LAMBDA_REST.match(body, behind)
    if not brace:
      rest.append(body[position:match.end()])
      position = match.end()
      continue
    rest.append(body[position:match.start()])
    position = skip(body, brace.end() - 1)
    parts += split_lambdas(body[brace.end():position - 1])
  rest.append(body[position:])
  return ["".join(rest)] + parts


def _flat(head):
  """Returns a head with a bare "()" per argument list, without templates."""
  out, position = [], 0
  while (start := head.find("(", position)) >= 0:
    out += [head[position:start], "()"]
    position = skip(head, start)
  head = "".join(out) + head[position:]
  if "operator" not in head:
    head = head.replace("->", "  ")
    while (shorter := re.sub(r"<[^<>]*>", " ", head)) != head:
      head = shorter
  head = re.sub(r"\[\[.*?\]\]", " ", head)
  return re.sub(r"\btemplate\b", " ", head).strip()


def _class_name(head):
  """Returns the name if `head` opens a class, else None."""
  match = re.match(r"(?:class|struct|union)\s+(?:\w+\s+)*?((?:\w+::)*\w+)"
                   r"\s*(?:final\s*)?(?::(?!:).*)?$", _flat(head), re.S)
  return match and match.group(1)


def _function_name(head):
  """Returns the name that a head declares or defines, "" if none."""
  flat = _flat(head)
  if re.match(r"(using|typedef|static_assert|enum|return)\b", flat):
    return ""
  if "operator" in flat:
    return "operator" if "(" in flat else ""
  match = re.match(r"[^=(]*?((?:\w+::)*~?\w+)\s*\(\)", flat)
  return match.group(1) if match else ""


def _is_member_initializer(head):
  """Returns whether the "{" behind `head` initialises a member."""
  flat = _flat(head)
  behind = flat[flat.find("()") + 2:]
  return bool(re.search(r"(?<!:):(?!:)", behind)) and \
      bool(re.search(r"[\w>]$", flat))


class _Scanner:
  """Walks over the declarations of one file."""

  def __init__(self, text):
    self.lines = text.split("\n")
    self.text = blank(text)
    self.start = 0      # of the statement that is being read
    self.scopes = []    # [class name or "", access, class comment]
    self.functions = []

  def line(self, offset):
    return self.text.count("\n", 0, offset) + 1

  def comment_above(self, line):
    """The // block that ends just above a line."""
    block = []
    while line >= 2 and self.lines[line - 2].lstrip().startswith("//"):
      block.insert(0, self.lines[line - 2].strip().lstrip("/").strip())
      line -= 1
    return " ".join(block)

  def statement_line(self, end):
    head = self.text[self.start:end]
    return self.line(self.start + len(head) - len(head.lstrip()))

  def add(self, end, body):
    """Notes the function whose head ends at `end`, if there is one."""
    head = self.text[self.start:end].strip()
    name = _function_name(head)
    if not name:
      return
    line = self.statement_line(end)
    comment = self.comment_above(line)
    before = self.functions[-1] if self.functions else None
    if (body is None and not comment and before and not before.special
        and before.end_line == line - 1):
      comment = before.comment  # a group of functions under one comment
    classes = [scope[0] for scope in self.scopes if scope[0]]
    own = name.split("::")[-1]
    owner = "::".join(classes + name.split("::")[:-1]).split("::")[-1]
    special = (own in ("operator", owner) or own.startswith("~")
               or bool(re.search(r"\bfriend\b", head)))
    self.functions.append(Function(
        "::".join(classes + [name]), line,
        self.line(end + len(body or "")), comment,
        self.scopes[-1][2] if classes else "",
        all(scope[1] == "public" for scope in self.scopes), body, special))

  def open_brace(self, i):
    """Handles text[i] == "{"; returns the offset to go on from."""
    head = self.text[self.start:i].strip()
    if re.match(r"(inline\s+)?namespace\b|extern\b\s*$", head):
      self.scopes.append(["", "public", ""])
    elif name := _class_name(head):
      comment = self.comment_above(self.statement_line(i))
      access = "private" if re.search(r"\bclass\b", head) else "public"
      self.scopes.append([name, access, comment])
    elif not _function_name(head) or _is_member_initializer(head):
      return skip(self.text, i)
    else:
      end = skip(self.text, i)
      self.add(i, self.text[i:end])
      self.start = end
      return end
    self.start = i + 1
    return i + 1

  def scan(self):
    i = 0
    while i < len(self.text):
      c = self.text[i]
      if c == "(":
        i = skip(self.text, i)
        continue
      if c == "{":
        i = self.open_brace(i)
        continue
      if c == "}":
        self.scopes = self.scopes[:-1]
        self.start = i + 1
      elif c == ";":
        self.add(i, None)
        self.start = i + 1
      elif c == ":" and self.text[self.start:i].strip() in ACCESS:
        self.scopes[-1][1] = self.text[self.start:i].strip()
        self.start = i + 1
      i += 1
    return self.functions


def functions(text):
  """Returns the functions that a file declares or defines, in order."""
  return _Scanner(text).scan()
