"""Makes the man pages and the bash completion of the command.

    manual.py BELAY DOCS OUT

asks the command BELAY for its --help, takes descriptions and exit codes from
command.md and errors.md in the folder DOCS, and writes OUT/man1/*.1.gz and
OUT/completions/belay.
"""

import dataclasses
import gzip
import os
import re
import shutil
import subprocess
import sys

_COLUMN = 30  # column where --help begins descriptions
# Arguments and options that name a directory; other arguments, and the options
# in _FILES, may name files.
_DIRECTORIES = ("DIR", "A", "B", "FROM", "--scratch")
_FILES = ("--model",)
# Options whose values are listed only in the error about an invalid one.
_LISTED_IN_ERRORS = ("--files", "--model", "--read")
_LINK = r"\[([^\]]+)\]\(([^()\s#]+)(?:#[^()\s]*)?\)"


@dataclasses.dataclass
class Item:
  """An argument, an option or a subcommand, as --help lists it."""
  names: list
  type: str  # "" for a flag
  notes: str  # accepted values, default
  choices: list
  text: str


@dataclasses.dataclass
class Help:
  """The contents of --help."""
  summary: str
  usage: str
  sections: dict  # a list of Items for each section title
  examples: list  # lines


def _split(lines):
  """Yields (left column, description) of the lines of a section."""
  lines = iter(lines)
  pending = next(lines, None)
  while pending is not None:
    line, pending = pending, next(lines, None)
    if pending is not None and pending.startswith(" " * _COLUMN):
      yield line.strip(), pending.strip()
      pending = next(lines, None)
    else:
      yield line[:_COLUMN].strip(), line[_COLUMN:].strip()


def _notes(rest):
  """Returns a text for what follows the type of an option."""
  words = []
  if match := re.search(r" Excludes: ([-\w ]+)", rest):
    rest = rest.replace(match.group(), "")
    words.append("not with " + " or ".join(match.group(1).split()))
  if rest.endswith(" REQUIRED"):
    rest = rest.removesuffix(" REQUIRED")
    words.append("required")
  if rest.endswith(" ..."):
    rest = rest.removesuffix(" ...")
    words.append("may be repeated")
  default = ""
  if match := re.search(r"=([^=\]})]*)$", rest):
    rest, default = rest[:match.start()], "default " + match.group(1)
  if match := re.match(r":INT in \[(\d+) - (\d+)\]$", rest):
    words.insert(0, f"{match.group(1)} to {match.group(2)}")
  elif match := re.match(r":\{(.*)\}$", rest):
    words.insert(0, match.group(1).replace(",", ", "))
  elif rest.startswith(":SIZE"):
    words.insert(0, "bytes, or with a unit such as kB, MiB, GB")
  elif rest:
    words.insert(0, rest.lstrip(":").lower())
  return ", ".join(word for word in (*words, default) if word)


def _item(left, text):
  match = re.match(r"([^\s=]+)(=\S+)?(?: ([A-Z]+)\b)?(.*)$", left)
  names, flag_default, kind, rest = match.groups()
  if not text or left.count("[") != left.count("]"):
    raise ValueError(f"--help lists {left!r} without a description")
  if kind == "REQUIRED":
    kind, rest = "", " REQUIRED"
  names = re.sub(r"\{[^}]*\}", "", names).split(",")
  choices = re.match(r":\{(.*)\}", rest)
  notes = _notes((flag_default or "") + rest)
  if flag_default == "=true":
    notes = "default " + names[0]
  return Item(names, kind or "", notes,
              choices.group(1).split(",") if choices else [], text)


def parse(text):
  """Returns the Help of the text that --help prints."""
  head, *blocks = re.split(r"^(?=\w+:$)", text.strip("\n"), flags=re.M)
  summary, usage = head.strip().split("\nUsage: ")
  sections, examples = {}, []
  for block in blocks:
    title, *lines = block.split("\n")
    lines = [line for line in lines if line]
    if title == "Examples:":
      examples = [line.strip() for line in lines]
    else:
      sections[title.rstrip(":")] = [_item(*line) for line in _split(lines)]
  return Help(" ".join(summary.split()), usage.strip(), sections, examples)


def ask(belay, *command):
  """Returns the Help of the command, or of a subcommand."""
  done = subprocess.run([belay, *command, "--help"], text=True, check=True,
                        capture_output=True)
  return parse(done.stdout)


def values_in_errors(belay):
  """Returns {option: values} as listed in the errors of `belay simulate`."""
  found = {}
  for option in _LISTED_IN_ERRORS:
    arguments = {"--model": "moe-small", "--from": "dp=1", option: "?"}
    words = [word for pair in arguments.items() for word in pair]
    done = subprocess.run([belay, "simulate", *words], text=True,
                          capture_output=True, check=False)
    match = re.search(r"\(need (?:a file or one of )?(.*), found \"\?\"\)",
                      done.stderr)
    if not match:
      sys.exit(f"belay simulate {option} '?' lists no values: {done.stderr}")
    found[option] = re.split(", | or ", match.group(1))
  return found


# --- what Markdown says, as troff

def escape(text):
  """Returns the text escaped for troff, whatever it begins with."""
  text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
  return "\\&" + text if text.startswith(".") else text


def _link(match):
  """Returns the replacement of a link: its text, and the page it leads to."""
  text, page = match.group(1), os.path.basename(match.group(2))
  return page if page == f"{text}.md" else f"{text}, {page}"


def _inline(markdown):
  """Returns one paragraph of Markdown: code is bold."""
  plain = re.sub(_LINK, _link, markdown)
  parts = re.split(r"`([^`]+)`", plain.replace("**", ""))
  return "".join(f"\\fB{escape(part)}\\fR" if i % 2 else escape(part)
                 for i, part in enumerate(parts))


def _cells(row):
  return [cell.strip() for cell in row.strip().strip("|").split("|")]


def descriptions(page):
  """Returns {subcommand: Markdown} of the table of docs/command.md."""
  found = {}
  for row in re.findall(r"^\| `belay .*$", page, re.M):
    command, text = _cells(row)
    found[command.strip("`").split()[1]] = text
  return found


def exit_codes(page):
  """Returns {subcommand: {code: Markdown}} of the table of docs/errors.md."""
  table = re.search(r"^\| code \| `belay .*?\n\n", page, re.M | re.S).group()
  header, _, *rows = table.strip().split("\n")
  found = {}
  for column, names in enumerate(_cells(header)[1:], 1):
    codes = {_cells(row)[0]: _cells(row)[column] for row in rows}
    for name in re.findall(r"`belay (\w+)`", names):
      found[name] = {code: text for code, text in codes.items() if text}
  return found


# --- the pages

def _header(name, version):
  return (f'.TH {name.upper()} 1 "" "belay {version}" "belay"\n'
          ".ad l\n.nh\n")


def _list(title, items):
  lines = [f".SH {title}"]
  for item in items:
    names = ", ".join(f"\\fB{escape(name)}\\fR" for name in item.names)
    kind = f" \\fI{item.type}\\fR" if item.names[0].startswith("-") else ""
    notes = f" ({escape(item.notes)})" if item.notes else ""
    lines += [".TP", names + (kind if item.type else ""),
              escape(item.text) + notes + "."]
  return "\n".join(lines) + "\n"


def _codes(codes):
  lines = [".SH EXIT STATUS"]
  for code, text in codes.items():
    lines += [".TP", f"\\fB{code}\\fR", _inline(text)]
  return "\n".join(lines) + "\n"


def _examples(name, lines):
  if not lines:
    raise ValueError(f"belay {name} --help has no examples")
  return (".SH EXAMPLES\n.nf\n" +
          "\n".join(f"\\fB{escape(line)}\\fR" for line in lines) + "\n.fi\n")


def _see_also(names, description=""):
  pages = ",\n".join(f".BR {escape(name)} (1)" for name in names)
  text = ".SH SEE ALSO\n" + pages.replace(",\n", " ,\n") + "\n"
  if re.search(_LINK, description):
    text += (".PP\nPages whose names end in .md are installed in "
             "share/doc/belay, in Debian by libbelay\\-dev.\n")
  return text


def _synopsis(usage):
  words = [f"\\fI{escape(word)}\\fR" if word.isupper() else
           escape(word).lower() if word.startswith("[") else
           f"\\fB{escape(word)}\\fR" for word in usage.split()]
  return ".SH SYNOPSIS\n" + " ".join(words) + "\n"


def subcommand_page(name, help_, version, description, codes):
  """Returns the page belay-NAME(1)."""
  return (_header(f"belay-{name}", version) +
          f".SH NAME\nbelay\\-{name} \\- {escape(_lower(help_.summary))}\n" +
          _synopsis(help_.usage) +
          f".SH DESCRIPTION\n\\fBbelay {name}\\fR {_inline(description)}.\n" +
          _list("ARGUMENTS", help_.sections.get("Positionals", [])) +
          _list("OPTIONS", help_.sections["Options"]) +
          _codes(codes) + _examples(name, help_.examples) +
          _see_also(["belay"], description))


def _lower(text):
  return text[:1].lower() + text[1:]


def main_page(help_, version):
  """Returns the page belay(1)."""
  commands = help_.sections["Subcommands"]
  summary = _lower(help_.summary.rstrip("."))
  return (_header("belay", version) +
          f".SH NAME\nbelay \\- {escape(summary)}\n" +
          _synopsis(help_.usage) +
          ".SH DESCRIPTION\nbelay saves and restores the distributed state of "
          "MPI programs. This command lists, prints, compares, verifies, copies "
          "and converts the checkpoints that they have saved. Of a directory "
          "of steps it takes the newest one.\n" +
          _list("COMMANDS", commands) + _list("OPTIONS",
                                              help_.sections["Options"]) +
          _see_also([f"belay-{item.names[0]}" for item in commands]))


# --- the completion

def _words(items):
  return " ".join(name for item in items for name in item.names)


def completion(help_, subcommands, listed_values):
  """Returns the bash script that completes the command."""
  options, values = [], []
  for name, sub in subcommands.items():
    listed = sub.sections["Options"]
    valued = [item for item in listed if item.type]
    options.append(f"  {name})\n    options='{_words(listed)}'\n"
                   f"    valued=' {_words(valued)} ' ;;")
    values += [f"    '{name} {option}') {action} ;;" for item in valued
               if (action := _value_action(item, listed_values))
               for option in item.names]
    arguments = sub.sections.get("Positionals", [])
    values += [f"    '{name} {place}') {action} ;;"
               for place, item in enumerate(arguments, 1)
               if (action := _argument_action(item))]
  return _COMPLETION.format(
      commands=_words(help_.sections["Subcommands"]),
      options=_words(help_.sections["Options"]),
      sub_options="\n".join(options), values="\n".join(values))


def _value_action(item, listed_values):
  """Returns the completion of an option's value, "" if there is none."""
  choices = item.choices or listed_values.get(item.names[0], [])
  actions = [f"words='{' '.join(choices)}'"] if choices else []
  if item.names[0] in _DIRECTORIES:
    actions.append("kind=-d")
  elif item.names[0] in _FILES:
    actions.append("kind=-f")
  return " ".join(actions)


def _argument_action(item):
  """Returns the completion of an argument, "" if there is no special one."""
  if item.names[0] == "KEY":
    return "kind='' keys=1"
  return "kind=-d" if item.names[0] in _DIRECTORIES else ""


_COMPLETION = """\
# bash completion of the command belay, made from its --help.
_belay() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} command='' last='' place=0 arg key
  local options='{options}' valued='' words='' kind='' keys='' dir=''
  for arg in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [[ $arg == -* ]] || {{ command=$arg; break; }}
  done
  case $command in
{sub_options}
  esac
  # `last` is the option whose value is asked for, else `place` the argument.
  for arg in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    if [[ -n $last ]]; then
      last=''
    elif [[ $valued == *" $arg "* ]]; then
      last=$arg
    elif [[ $arg != -* ]]; then
      ((++place))
      ((place == 2)) && dir=${{arg/#~\//$HOME/}}
    fi
  done
  if [[ -z $last && $word == -* ]]; then
    words=$options
  elif [[ -z $command ]]; then
    words='{commands}'
  else
    [[ -n $last ]] || kind=-f
    case "$command ${{last:-$place}}" in
{values}
    esac
  fi
  COMPREPLY=()
  if [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  fi
  if [[ -n $kind ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O ${{#COMPREPLY[@]}} COMPREPLY < <(compgen "$kind" -- "$word")
  fi
  # The keys of the step, of which bash gets those that it need not quote.
  [[ -n $keys ]] || return 0
  while IFS= read -r key; do
    [[ $key != "$word"* || $key == *[!A-Za-z0-9_./%+-]* ]] || COMPREPLY+=("$key")
  done < <("${{COMP_WORDS[0]}}" ls -- "$dir" 2>/dev/null |
    sed -n '/^key .*dtype /,/^$/{{/^key .*dtype /d;/^$/d;s/  .*//p}}')
}}
complete -F _belay belay
"""


def _write(path, text):
  os.makedirs(os.path.dirname(path), exist_ok=True)
  content = text.encode()
  if path.endswith(".gz"):  # the same bytes each time: no name, no time
    content = gzip.compress(content, mtime=0)
  with open(path, "wb") as file:
    file.write(content)


def _read(*path):
  with open(os.path.join(*path), encoding="utf-8") as file:
    return file.read()


def main():
  belay, docs, out = sys.argv[1:]
  version = subprocess.run([belay, "--version"], text=True, check=True,
                           capture_output=True).stdout.strip()
  help_ = ask(belay)
  texts = descriptions(_read(docs, "command.md"))
  codes = exit_codes(_read(docs, "errors.md"))
  names = [item.names[0] for item in help_.sections["Subcommands"]]
  for page, listed in (("command.md", texts), ("errors.md", codes)):
    if set(listed) != set(names):
      sys.exit(f"the table of commands in {page} differs from belay --help: "
               f"{sorted(set(listed) ^ set(names))}")
  subcommands = {name: ask(belay, name) for name in names}
  shutil.rmtree(out, ignore_errors=True)  # pages of what is no command any more
  _write(f"{out}/man1/belay.1.gz", main_page(help_, version))
  for name, sub in subcommands.items():
    _write(f"{out}/man1/belay-{name}.1.gz",
           subcommand_page(name, sub, version, texts[name], codes[name]))
  _write(f"{out}/completions/belay",
         completion(help_, subcommands, values_in_errors(belay)))


if __name__ == "__main__":
  main()
