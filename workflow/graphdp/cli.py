"""The `graphdp` command: questions about privacy and runs, answered in seconds without torch."""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from graphdp import __version__, cli_calibrate, cli_rows, key_record
from graphdp.errors import GraphDPError
from graphdp.keys import make_key
from graphdp.methods import registry


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line, like every other error of the project."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # An option is named in full, as a key of a configuration.
        super().__init__(*arguments, allow_abbrev=False, **options)
        # Python's own takes -1 for a value, and -1e-5 for an option.
        self._negative_number_matcher = re.compile(r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$|-inf$", re.I)

    def error(self, message: str) -> None:
        self.exit(2, f"graphdp: {message}; see {self.prog} --help\n")


#: Where the demo's statements of a method lie.
_DEMO = "results/demo/statements/csbm-small/gap"


def _examples(*commands: str) -> str:
    """Examples of the commands named, or of all; what they read of the demo `make demo` makes."""
    found = {
        "calibrate": [
            f"{its.name} {example}" for its in registry.cards().values() for example in its.examples
        ],
        "statement": [f"{_DEMO}/node/4.json"],
        "compare": [f"{_DEMO}/edge/4.json {_DEMO}/node/4.json"],
    }
    lines = [
        f"  graphdp {command} {example}"
        for command in commands or found
        for example in found[command]
    ]
    return "\n".join(["examples:", *lines]) + "\n"


def build_parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    parser = _Parser(
        prog="graphdp",
        description=__doc__,
        epilog=_examples(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"graphdp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser(
        "calibrate",
        help="the noise multiplier of a method at a privacy target",
        description="The smallest noise multiplier that keeps a method within epsilon at delta.",
        epilog=_examples("calibrate"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cli_calibrate.add_options(command)
    command = commands.add_parser(
        "key",
        help="a secret key for private releases",
        description="Writes a fresh key to a new file that its owner alone may read.",
    )
    command.add_argument("file", metavar="FILE", help="the file to make; keep it where no data is")
    command = commands.add_parser(
        "status",
        help="where a study stands",
        description="What of a study is done, running, failed and left. It reads the configuration "
        "file alone: what a run was given by --config is not known.",
    )
    command.add_argument(
        "study",
        nargs="?",
        default="demo",
        metavar="STUDY",
        help="its configuration file, or the name of one of the project's (demo if not given)",
    )
    command = commands.add_parser(
        "rows",
        help="the rows of all models that are finished",
        description="Joins the rows of finished models, of a run that goes on or of several, for "
        "known_rows. Nothing is trained.",
    )
    cli_rows.add_options(command)
    _file_command(commands, "statement", "a privacy statement as one page of Markdown", ("file",))
    command = _file_command(
        commands, "compare", "where two privacy statements differ", ("first", "second")
    )
    command.add_argument("--json", action="store_true", help="print a JSON list of differences")
    return parser


def _file_command(
    commands: Any, name: str, what: str, files: tuple[str, ...]
) -> argparse.ArgumentParser:
    """A command that reads statements."""
    command = commands.add_parser(
        name,
        help=what,
        description=f"Prints {what}. A file holds one statement (JSON) or a list of them.",
        epilog=_examples(name),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for file in files:
        command.add_argument(file, metavar=file.upper(), help="a statement's JSON file")
    return command


def _key(arguments: argparse.Namespace) -> str:
    key_record.check_unused(arguments.file)
    make_key(arguments.file)
    return f"a new key is in {arguments.file}; whoever has it can draw the noise again"


def _statement(arguments: argparse.Namespace) -> str:
    # Imported here: calibrate needs none of the statement's types.
    from graphdp.privacy.statement_form import read_statements
    from graphdp.privacy.statement_page import render_pages

    return render_pages(read_statements(arguments.file)).rstrip("\n")


def _status(arguments: argparse.Namespace) -> str:
    from graphdp.workflow import status

    config = status.find_config(arguments.study)
    return status.render(str(config), status.status(config))


def _compare(arguments: argparse.Namespace) -> str:
    from graphdp.privacy.statement_form import differences, read_statements

    first, second = (
        [statement.to_json() for statement in read_statements(path)]
        for path in (arguments.first, arguments.second)
    )
    if len(first) == len(second) == 1:  # the usual file: its paths need no position
        first, second = first[0], second[0]
    found = differences(first, second)
    if arguments.json:
        rows = [{"field": where, "first": a, "second": b} for where, a, b in found]
        return json.dumps(rows, indent=2, ensure_ascii=False)
    if not found:
        return "the statements are equal"
    return "\n".join(
        f"{where}\n  {arguments.first}: {_shown(a)}{_label(first, where)}\n"
        f"  {arguments.second}: {_shown(b)}{_label(second, where)}"
        for where, a, b in found
    )


def _label(value: Any, where: str) -> str:
    """How an ε that differs is to be read, by basis, adjacency, δ and status beside it."""
    *names, last = where.split(".")
    if "epsilon" not in last:
        return ""
    try:
        for name in names:
            value = value[int(name)] if isinstance(value, list) else value[name]
    except LookupError:  # the other alone has it
        return ""
    said = [value.get(name) for name in ("basis", "adjacency", "delta", "status")]
    if said[2] is not None:
        said[2] = f"δ = {said[2]:g}"
    said = [str(one) for one in said if one not in (None, "")]
    return f" ({', '.join(said)})" if said else ""


def _shown(value: Any) -> str:
    return "–" if value is None else json.dumps(value, ensure_ascii=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 on success, 2 with one line on standard error for bad input."""
    # A terminal that knows no ε shows its number, rather than a traceback.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        parsed = build_parser().parse_args(arguments)
    except GraphDPError as error:  # of a method's folder
        print(f"graphdp: {error}", file=sys.stderr)
        return 2
    command = {
        "calibrate": cli_calibrate.answer, "key": _key, "statement": _statement,
        "compare": _compare, "status": _status, "rows": cli_rows.answer,
    }  # fmt: skip
    try:
        text = command[parsed.command](parsed)
    except GraphDPError as error:
        print(f"graphdp: {error}", file=sys.stderr)
        return 2
    try:
        print(text, flush=True)
    except BrokenPipeError:  # `graphdp ... | head` is not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"graphdp: the output cannot be written: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
