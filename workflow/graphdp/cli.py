"""The `graphdp` command: questions about privacy, answered in seconds and without torch."""

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.privacy import dpdgc
from graphdp.privacy.calibration import Calibration, calibrate, default_delta
from graphdp.privacy.plan import Plan, neighbors
from graphdp.privacy.plans import (
    DEGREE_BOUNDS,
    NODE_ADJACENCIES,
    gap_plan,
    mlp_plan,
    progap_plan,
    sage_plan,
)

EXAMPLES = """\
examples:
  graphdp calibrate gap --level edge --epsilon 4 --delta 1e-7 --hops 2
  graphdp calibrate gap --level node --epsilon 8 --delta 1e-5 --train-nodes 19800 \\
      --batch-size 256 --epochs 10 --max-degree 100 --hops 2 --json
  graphdp calibrate progap --level edge --epsilon 1 --delta 1e-7 --depth 3
  graphdp calibrate gap --level node --adjacency node_replace --epsilon 16 --delta 1e-5 \\
      --train-nodes 14788 --batch-size 256 --epochs 100 --max-degree 100 --hops 2
  graphdp calibrate mlp --level node --epsilon 8 --train-nodes 19800 --batch-size 256 --epochs 10
  graphdp calibrate sage --level edge --epsilon 4 --delta 1e-7 --perturbation asymmetric
  graphdp calibrate sage --level node --epsilon 8 --train-nodes 19800 --batch-size 256 \\
      --epochs 10 --max-degree 100
  graphdp calibrate dpdgc --level k5 --epsilon 16 --delta 1e-5 --train-nodes 14235 \\
      --batch-size 256 --epochs 100
  graphdp statement statement.json
  graphdp compare edge.json node.json
"""


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line, like every other error of the project."""

    def error(self, message: str) -> None:
        self.exit(2, f"graphdp: {message}; see {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    parser = _Parser(
        prog="graphdp",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser(
        "calibrate",
        help="the noise multiplier of a method at a privacy target",
        description="The smallest noise multiplier that keeps a method within epsilon at delta.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "method", choices=("gap", "mlp", "progap", "sage", "dpdgc", "dpdgcofficial")
    )
    command.add_argument(
        "--level", required=True, type=_level, help="edge, node, or (dpdgc) k<number>, e.g. k5"
    )
    command.add_argument("--epsilon", required=True, type=float, help="target, or inf")
    command.add_argument(
        "--delta",
        type=float,
        help="below 1 / number of units; node and k level default to the papers' choice, "
        "10^-(digits of the number of training nodes)",
    )
    command.add_argument("--hops", type=int, help="gap: number of noisy aggregations")
    command.add_argument("--depth", type=int, help="progap: number of noisy aggregations")
    command.add_argument(
        "--perturbation",
        default="asymmetric",
        choices=("asymmetric", "edge_rand", "lap_graph"),
        help="sage, edge level: how the graph is perturbed (default asymmetric)",
    )
    node = command.add_argument_group("node level (dpdgc: every level)")
    node.add_argument("--train-nodes", type=int, help="number of training nodes")
    node.add_argument("--batch-size", type=int, help="(expected) size of a batch")
    node.add_argument("--epochs", type=int, help="epochs of each DP-Adam phase")
    node.add_argument("--max-degree", type=int, help="not mlp: bound on degrees")
    node.add_argument(
        "--degree-bound",
        choices=DEGREE_BOUNDS,
        default="sampling",
        help="gap: what keeps the bound (default sampling, as published)",
    )
    node.add_argument(
        "--adjacency",
        choices=NODE_ADJACENCIES,
        default="node_add_remove",
        help="gap, mlp, sage: a node there or not, or replaced (default node_add_remove)",
    )
    node.add_argument("--max-grad-norm", type=float, default=1.0, help="clip norm (default 1)")
    node.add_argument(
        "--classifier-epochs", type=int, help="dpdgc: epochs of the classifier, if not --epochs"
    )
    node.add_argument("--no-encoder", action="store_true", help="gap: no encoder phase")
    command.add_argument("--json", action="store_true", help="print one JSON object")
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
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for file in files:
        command.add_argument(file, metavar=file.upper(), help="a statement's JSON file")
    return command


def _level(text: str) -> str:
    if text in ("edge", "node") or neighbors(text) is not None:
        return text
    raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose edge, node or k<number>)")


def _plan(arguments: argparse.Namespace) -> Plan:
    if arguments.adjacency != "node_add_remove" and arguments.method not in ("gap", "mlp", "sage"):
        raise GraphDPError(f"{arguments.method} has one adjacency; leave --adjacency out")
    training = (
        arguments.train_nodes,
        arguments.batch_size,
        arguments.epochs,
        arguments.max_grad_norm,
    )
    if arguments.method in ("dpdgc", "dpdgcofficial"):
        corrected = arguments.method == "dpdgc"
        make = dpdgc.corrected_plan if corrected else dpdgc.implemented_plan
        epochs = arguments.classifier_epochs or arguments.epochs
        where = arguments.level, arguments.max_degree, *training[:3]
        return make(*where, epochs, arguments.max_grad_norm)
    if arguments.method == "mlp":
        return mlp_plan(arguments.level, *training, arguments.adjacency)
    if arguments.method == "progap":
        if arguments.depth is None:
            raise GraphDPError("progap needs the number of aggregations; give --depth")
        return progap_plan(arguments.level, arguments.depth, arguments.max_degree, *training)
    if arguments.method == "sage":
        edges = (arguments.perturbation, arguments.max_degree)
        return sage_plan(arguments.level, *edges, *training, arguments.adjacency)
    if arguments.hops is None:
        raise GraphDPError("gap needs the number of aggregations; give --hops")
    return gap_plan(
        arguments.level,
        arguments.hops,
        arguments.max_degree,
        *training,
        encoder=not arguments.no_encoder,
        degree_bound=arguments.degree_bound,
        adjacency=arguments.adjacency,
    )


def _delta(arguments: argparse.Namespace, plan: Plan) -> float | None:
    if arguments.delta is not None or arguments.epsilon in (0, math.inf):
        return arguments.delta
    if plan.adjacency == "node_add_remove":
        return default_delta(arguments.train_nodes)
    units = "edges" if plan.level == "edge" else "nodes"
    raise GraphDPError(f"give --delta, below one over the number of {units}")


def render(calibration: Calibration) -> str:
    """The calibration as text: noise, the accounting table, and what the ε means."""
    plan = calibration.plan
    noise = calibration.noise_multiplier
    lines = [
        f"{plan.method}, {plan.level} level, {plan.basis}: claim under {plan.adjacency}, "
        f"status {plan.status}",
        f"noise multiplier: {'none, nothing is released' if noise is None else f'{noise:.6g}'}",
        "",
        f"{'accountant':<15}{'epsilon':>10}{'delta':>9}{'order':>7}  method",
    ]
    delta = "-" if calibration.delta is None else f"{calibration.delta:g}"
    for entry in calibration.accounting:
        order = "-" if entry.optimal_order is None else f"{entry.optimal_order:g}"
        library = f" ({entry.library})" if entry.library else ""
        lines.append(
            f"{entry.accountant:<15}{entry.epsilon:>10.5g}{delta:>9}{order:>7}"
            f"  {entry.method}{library}"
        )
    lines += ["", *(f"- {assumption}" for assumption in plan.assumptions)]
    if plan.status == "refuted":
        lines.append("A counterexample to this claim exists: read its epsilon as none.")
    return "\n".join(lines)


def _calibrate(arguments: argparse.Namespace) -> str:
    plan = _plan(arguments)
    result = calibrate(plan, arguments.epsilon, _delta(arguments, plan), with_pld=True)
    if arguments.json:
        return json.dumps(result.to_dict(), indent=2, ensure_ascii=False)
    return render(result)


def _statement(arguments: argparse.Namespace) -> str:
    # Imported here: calibrate needs neither the statement's types nor pydantic.
    from graphdp.privacy.statement_form import read_statements
    from graphdp.privacy.statement_page import render_pages

    return render_pages(read_statements(arguments.file)).rstrip("\n")


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
        f"{where}\n  {arguments.first}: {_shown(a)}\n  {arguments.second}: {_shown(b)}"
        for where, a, b in found
    )


def _shown(value: Any) -> str:
    return "–" if value is None else json.dumps(value, ensure_ascii=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 on success, 2 with one line on standard error for bad input."""
    parsed = build_parser().parse_args(arguments)
    command = {"calibrate": _calibrate, "statement": _statement, "compare": _compare}
    try:
        text = command[parsed.command](parsed)
    except GraphDPError as error:
        print(f"graphdp: {error}", file=sys.stderr)
        return 2
    try:
        print(text, flush=True)
    except BrokenPipeError:  # `graphdp ... | head` is not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
