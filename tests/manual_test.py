"""The man pages and the bash completion say what the command's --help says.

argv: the command, the folder that tools/manual.py has written, its version.
"""
import glob
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BELAY, MANUAL, VERSION = (*map(os.path.abspath, sys.argv[1:3]), sys.argv[3])
PATH = f"{os.path.dirname(BELAY)}:{os.environ['PATH']}"
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")


def help_of(*command):
    return subprocess.run([BELAY, *command, "--help"], text=True, check=True,
                          capture_output=True).stdout


def section(text, title):
    """Returns the lines of one section of --help."""
    match = re.search(rf"^{title}:\n((?:  .*\n)+)", text, re.M)
    return match.group(1).split("\n")[:-1] if match else []


def names(text, title):
    """Returns what a section of --help lists: its arguments or options."""
    found = []
    for line in section(text, title):
        if not line.startswith(" " * 30):
            first = re.sub(r"\{[^}]*\}|=.*", "", line.split()[0])
            found += first.split(",")
    return found


COMMANDS = names(help_of(), "Subcommands")


def words(text):
    return " ".join(text.split())


class Pages(unittest.TestCase):
    maxDiff = None

    def page(self, name):
        with gzip.open(f"{MANUAL}/man1/{name}.1.gz", "rt") as file:
            return file.read()

    def rendered(self, name):
        """Returns the page in one line, as troff prints it, without hyphens."""
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        done = subprocess.run(
            ["groff", "-ww", "-man", "-Tascii", "-P-cbou"],
            input=self.page(name), text=True, capture_output=True, check=True)
        self.assertEqual(done.stderr, "")
        return words(done.stdout)

    def test_every_command_has_a_page(self):
        self.assertGreater(len(COMMANDS), 10)
        pages = [os.path.basename(path) for path in
                 glob.glob(f"{MANUAL}/man1/*")]
        self.assertEqual(sorted(pages), sorted(
            ["belay.1.gz", *(f"belay-{name}.1.gz" for name in COMMANDS)]))

    def test_main_page_lists_the_commands(self):
        text = self.rendered("belay")
        for line in section(help_of(), "Subcommands"):
            name, description = line.split(None, 1)
            self.assertIn(f"{name} {words(description)}.", text)
            self.assertIn(f"belay-{name}(1)", text)
        self.assertIn(f"belay {VERSION}", text)

    def test_pages_have_all_that_help_says(self):
        for name in COMMANDS:
            text, said = self.rendered(f"belay-{name}"), help_of(name)
            lines = section(said, "Positionals") + section(said, "Options")
            for line, next_line in zip(lines, [*lines[1:], ""]):
                if not next_line.startswith(" " * 30):  # else it says no more
                    self.assertIn(words(line[30:]), text, name)

    def test_pages_have_no_other_options(self):
        for name in COMMANDS:
            listed = re.split(r"^\.SH (.*)$", self.page(f"belay-{name}"),
                              flags=re.M)
            options = listed[listed.index("OPTIONS") + 1]
            heads = re.findall(r"^\.TP\n(.*)$", options, re.M)
            found = [option.replace("\\-", "-") for head in heads
                     for option in re.findall(r"\\fB(.*?)\\fR", head)]
            self.assertEqual(found, names(help_of(name), "Options"), name)

    def test_pages_say_how_a_command_ends(self):
        self.assertIn("EXIT STATUS 0 nothing is damaged 1 something is damaged",
                      self.rendered("belay-verify"))

    def test_pages_have_examples(self):
        for name in COMMANDS:
            self.assertRegex(self.rendered(f"belay-{name}"),
                             rf"EXAMPLES (mpirun -n \d )?belay {name} ")

    def test_pages_name_the_page_of_a_link(self):
        text = self.rendered("belay-export")
        self.assertIn("with an index (safetensors.md).", text)
        self.assertIn("installed in share/doc/belay", text)
        self.assertNotIn(".md", self.rendered("belay-verify"))

    def test_pages_are_found_by_whatis(self):
        if not shutil.which("lexgrog"):
            self.skipTest("man-db is not installed")
        done = subprocess.run(["lexgrog", f"{MANUAL}/man1/belay-ls.1.gz"],
                              text=True, capture_output=True, check=True)
        self.assertIn("belay-ls - list the arrays of a checkpoint", done.stdout)


class Completion(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        root = pathlib.Path(self.dir.name)
        (root / "run one").mkdir()
        (root / "model.safetensors").touch()

    def complete(self, *line):
        """Returns what bash offers for the last word of the line."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); '
                  'COMP_CWORD=$(($# - 1)); _belay 2>&1; '
                  '[[ ${#COMPREPLY[@]} == 0 ]] || printf "%s\\n" '
                  '"${COMPREPLY[@]}"')
        done = subprocess.run(
            ["bash", "-uc", script, "bash", f"{MANUAL}/completions/belay",
             "belay", *line], text=True, capture_output=True, check=True,
            cwd=self.dir.name, env={**os.environ, "PATH": PATH})
        self.assertEqual(done.stderr, "")
        return done.stdout.splitlines()

    def test_commands(self):
        self.assertEqual(self.complete("")[:2], ["ls", "steps"])
        self.assertEqual(self.complete("co"), ["copy", "convert"])
        self.assertEqual(self.complete("--v"), ["--version"])

    def test_options_are_those_of_help(self):
        for name in COMMANDS:
            self.assertEqual(self.complete(name, "-"),
                             names(help_of(name), "Options"))

    def test_no_options_of_another_command(self):
        self.assertEqual(self.complete("ls", "--sh"), ["--shards"])
        self.assertEqual(self.complete("show", "--sh"), [])

    def test_values(self):
        self.assertEqual(self.complete("copy", "--files", ""),
                         ["shared", "node", "task"])
        self.assertEqual(self.complete("copy", "run", "--files", "t"), ["task"])
        self.assertEqual(self.complete("copy", "--step", ""), [])
        self.assertEqual(self.complete("simulate", "--model", "mo"),
                         ["moe-small", "model.safetensors"])
        for command in ("plan", "simulate"):
            self.assertEqual(self.complete(command, "--read", ""),
                             ["auto", "each", "once"])

    def test_arguments(self):
        self.assertEqual(self.complete("ls", ""), ["run one"])
        self.assertEqual(self.complete("import", "m"), ["model.safetensors"])
        # After a value of an option, and after a flag.
        self.assertEqual(self.complete("import", "--step", "3", "m"),
                         ["model.safetensors"])
        self.assertEqual(self.complete("import", "--overwrite", "x", ""),
                         ["run one"])

    def test_keys(self):
        step = os.path.join(GOLDEN, "format_1_0", "step_00000018")
        self.assertEqual(self.complete("show", step, ""), ["bodies"])
        self.assertEqual(self.complete("show", step, "bo"), ["bodies"])
        self.assertEqual(self.complete("show", step, "x"), [])
        self.assertEqual(self.complete("show", "none", ""), [])

    def test_bash_itself_uses_it(self):
        done = subprocess.run(
            ["bash", "-c", 'source "$1"; complete -p belay', "bash",
             f"{MANUAL}/completions/belay"], text=True, capture_output=True,
            check=True)
        self.assertEqual(done.stdout, "complete -F _belay belay\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
