"""The `graphdp` command: questions about privacy, answered in seconds and without torch."""

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence

from graphdp.errors import GraphDPError
from graphdp.privacy.calibration import Calibration, calibrate, default_delta
from graphdp.privacy.plan import Plan
from graphdp.privacy.plans import gap_plan, mlp_plan

EXAMPLES = """\
examples:
  graphdp calibrate gap --level edge --epsilon 4 --delta 1e-7 --hops 2
  graphdp calibrate gap --level node --epsilon 8 --delta 1e-5 --train-nodes 19800 \\
      --batch-size 256 --epochs 10 --max-degree 100 --hops 2 --json
  graphdp calibrate mlp --level node --epsilon 8 --train-nodes 19800 --batch-size 256 --epochs 10
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
    command.add_argument("method", choices=("gap", "mlp"))
    command.add_argument("--level", required=True, choices=("edge", "node"))
    command.add_argument("--epsilon", required=True, type=float, help="target, or inf")
    command.add_argument(
        "--delta",
        type=float,
        help="below 1 / number of units; node level defaults to the papers' choice, 10^-(digits "
        "of the number of training nodes)",
    )
    command.add_argument("--hops", type=int, help="gap: number of noisy aggregations")
    node = command.add_argument_group("node level")
    node.add_argument("--train-nodes", type=int, help="number of training nodes")
    node.add_argument("--batch-size", type=int, help="expected size of a Poisson batch")
    node.add_argument("--epochs", type=int, help="epochs of each DP-Adam phase")
    node.add_argument("--max-degree", type=int, help="gap: bound on the out-degree")
    node.add_argument("--max-grad-norm", type=float, default=1.0, help="clip norm (default 1)")
    node.add_argument("--no-encoder", action="store_true", help="gap: no encoder phase")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _plan(arguments: argparse.Namespace) -> Plan:
    training = (
        arguments.train_nodes,
        arguments.batch_size,
        arguments.epochs,
        arguments.max_grad_norm,
    )
    if arguments.method == "mlp":
        return mlp_plan(arguments.level, *training)
    if arguments.hops is None:
        raise GraphDPError("gap needs the number of aggregations; give --hops")
    return gap_plan(
        arguments.level,
        arguments.hops,
        arguments.max_degree,
        *training,
        encoder=not arguments.no_encoder,
    )


def _delta(arguments: argparse.Namespace) -> float | None:
    if arguments.delta is not None or arguments.epsilon in (0, math.inf):
        return arguments.delta
    if arguments.level == "node" and arguments.train_nodes is not None:
        return default_delta(arguments.train_nodes)
    raise GraphDPError("give --delta, below one over the number of protected units")


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 on success, 2 with one line on standard error for bad input."""
    parsed = build_parser().parse_args(arguments)
    try:
        result = calibrate(_plan(parsed), parsed.epsilon, _delta(parsed), with_pld=True)
    except GraphDPError as error:
        print(f"graphdp: {error}", file=sys.stderr)
        return 2
    text = json.dumps(result.to_dict(), indent=2, ensure_ascii=False) if parsed.json else None
    try:
        print(text or render(result), flush=True)
    except BrokenPipeError:  # `graphdp ... | head` is not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
