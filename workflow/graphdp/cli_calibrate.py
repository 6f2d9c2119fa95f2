"""`graphdp calibrate`: the noise multiplier of a method at a privacy target.

Its options are the hyperparameters that the methods' plans read.
"""

import argparse
import itertools
import json
import math
import sys
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from graphdp.errors import GraphDPError
from graphdp.methods import registry
from graphdp.methods.card import Card
from graphdp.methods.options import options, plan_fields, type_of
from graphdp.privacy.accounting import check_delta, primary
from graphdp.privacy.calibration import (
    CALIBRATE_FOR,
    Calibration,
    calibrate,
    calibration_plan,
    cheapest_first,
    default_delta,
    needs_more,
)
from graphdp.privacy.plan import ASKED, Plan, accounted_by
from graphdp.privacy.protection import (
    KINDS,
    LEVELS,
    adjacency,
    delta_fault,
    is_level,
    is_private,
    level_kind,
    protects_nodes,
)
from graphdp.privacy.rounding import at_most


def add_options(command: argparse.ArgumentParser) -> None:
    """Give the command's parser its arguments."""
    command.add_argument("method", choices=list(registry.cards()))
    kinds = {kind for its in registry.cards().values() for kind in its.levels if is_private(kind)}
    shown = [kind if kind != "k" else "k<number>" for kind in KINDS if kind in kinds]
    command.add_argument(
        "--level", required=True, type=_level, help=f"{', '.join(shown)} (what is protected)"
    )
    command.add_argument("--epsilon", required=True, type=float, help="target, or inf")
    command.add_argument(
        "--delta",
        type=float,
        help="below 1 / number of protected units; where the papers count training nodes the "
        "default is their choice, 10^-(digits of their number)",
    )
    command.add_argument("--train-nodes", type=_whole, help="number of training nodes")
    command.add_argument(
        "--nodes",
        type=_whole,
        help="number of all nodes (where nodes are protected, delta counts it)",
    )
    command.add_argument(
        "--edges",
        type=_whole,
        help="number of entries of the adjacency matrix, two of an undirected edge (where edges "
        "are protected, delta counts it)",
    )
    command.add_argument(
        "--calibrate-for",
        choices=CALIBRATE_FOR,
        default="published",
        help="the analysis that meets the target: the method's own (default), the corrected one "
        "that private releases are held to, or the corrected one of a replaced node",
    )
    command.add_argument(
        "--accountant",
        choices=ASKED,
        default="auto",
        help="pld: sampled rounds by privacy loss distributions, with less noise than Rényi DP's",
    )
    group = command.add_argument_group("hyperparameters that the plan reads")
    for name, option in options().items():
        flag = f"--{name.replace('_', '-')}"
        words = option.help.replace("%", "%%")
        if option.type is bool:
            group.add_argument(flag, dest=name, action="store_true", default=None, help=words)
        else:
            # What a method's own choices are its settings say.
            known = f"{{{','.join(option.choices)}}}"
            number = _whole if option.type is int else option.type
            kind = {"metavar": known} if option.choices else {"type": number}
            group.add_argument(flag, dest=name, help=words, **kind)
    command.add_argument("--json", action="store_true", help="print one JSON object")


def _whole(text: str) -> int:
    # Sensitivities of hundreds of digits are no floats.
    if len(text) > 16:
        raise argparse.ArgumentTypeError(f"{text[:9]}... is no number of at most 16 digits")
    return int(text)


_whole.__name__ = "int"  # what argparse calls it where a text is no number


def _level(text: str) -> str:
    # Of more than a million neighbours no ε could be computed.
    if len(text) <= len("k999999") and is_level(text) and is_private(text):
        return text
    known = ", ".join(level for level in LEVELS if level != "none")
    raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose {known})")


def _plan(arguments: argparse.Namespace, chosen: dict[str, Any] | None = None) -> Plan:
    """The plan of --calibrate-for, for the hyperparameters given and those `chosen`."""
    its, level = registry.card(arguments.method), arguments.level
    where = f"{its.name}, {level} level"
    if level_kind(level) not in its.levels and (its.reads_edges or protects_nodes(level)):
        kinds = ["k<number>" if kind == "k" else kind for kind in its.levels if is_private(kind)]
        raise GraphDPError(f"{its.name} has no level {level}; choose {', '.join(kinds)}")
    fields = plan_fields(its, level)
    given = {
        name: getattr(arguments, name) for name in options() if getattr(arguments, name) is not None
    } | (chosen or {})
    for name in given:
        if name not in fields:
            fix = (its.settings(level).INSTEAD if fields else {}).get(name, "leave it out")
            raise GraphDPError(f"{where}, reads no --{name.replace('_', '-')}; {fix}")
    setting = _setting(its, level, fields, given) if fields else {}
    try:
        plans = registry.analyses(its.name, level, its.plan(level, setting), arguments.train_nodes)
        plans = accounted_by(arguments.accountant, plans)
    except GraphDPError as error:
        if arguments.train_nodes is None and "num_train" in str(error):
            raise GraphDPError(f"{where}: give --train-nodes") from None
        raise
    plan = calibration_plan(plans, arguments.calibrate_for)
    if plan.composition.is_empty:  # ε = 0, whichever analysis is asked for
        return plan
    if arguments.calibrate_for != "published" and plan.basis != "corrected":
        raise GraphDPError(
            f"{where}: no corrected analysis has a finite epsilon, so that no noise meets "
            f"{arguments.epsilon:g} there; without --calibrate-for its own claim is calibrated"
        )
    if arguments.calibrate_for == "replaced" and plan.adjacency != "node_replace":
        raise GraphDPError(
            f"{where}: no corrected analysis of a replaced node has a finite epsilon; without "
            "--calibrate-for replaced another promise is calibrated"
        )
    return plan


def _setting(its: Card, level: str, fields: Sequence[str], given: dict[str, Any]) -> dict[str, Any]:
    """A full setting from what is given: counts that the plan reads have to be."""
    settings = its.settings(level)
    for name, other in settings.IF_NOT_GIVEN.items():
        if name in fields and other in given:
            given.setdefault(name, given[other])
    missing = [
        _options(name, settings.EITHER.get(name))
        for name in fields
        if name not in given
        and name not in settings.IF_NOT_GIVEN
        and settings.EITHER.get(name) not in given
        and type_of(settings.model_fields[name].annotation)[0] is int
    ]
    if missing:
        raise GraphDPError(f"{its.name}, {level} level: give {', '.join(missing)}")
    try:
        return settings(**given).model_dump(exclude_none=True)
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:  # of several together
            raise GraphDPError(f"{its.name}: {first['ctx']['error']}") from None
        name, value = str(first["loc"][0]), first["input"]
        takes = [kind for kind in its.levels if _takes(its, kind, name, value)]
        hint = f"; {value} goes with --level {' or '.join(takes)}" if takes else ""
        option = name.replace("_", "-")
        raise GraphDPError(f"--{option}: {first['msg'].lower()}, not {value}{hint}") from None


def _options(*names: str | None) -> str:
    """Options of which one is to be given."""
    return " or ".join(f"--{name.replace('_', '-')}" for name in names if name)


def _takes(its: Card, kind: str, name: str, value: Any) -> bool:
    """Whether a name is among a hyperparameter's choices at a level."""
    field = its.levels[kind].model_fields.get(name)
    return field is not None and value in type_of(field.annotation)[1]


def _delta(arguments: argparse.Namespace, plan: Plan) -> float | None:
    if arguments.delta is not None or arguments.epsilon in (0, math.inf):
        return arguments.delta
    if plan.composition.is_empty:
        return None
    known = adjacency(plan.adjacency)
    counted = {
        "edges": arguments.edges, "train": arguments.train_nodes, "nodes": arguments.nodes
    }  # fmt: skip
    own = [known.counts] if plan.basis == "corrected" else []
    for units in (*own, known.published_counts, known.counts):
        if counted.get(units) is not None:
            return default_delta(counted[units])
    raise GraphDPError(f"give --delta, below one over the number of {known.counts}")


def _check_counts(arguments: argparse.Namespace) -> None:
    for name in ("train_nodes", "nodes", "edges"):
        count = getattr(arguments, name)
        if count is not None and count < 1:
            raise GraphDPError(f"--{name.replace('_', '-')} {count}: at least 1 is needed")
    train, nodes = arguments.train_nodes, arguments.nodes
    if train and nodes and nodes < train:
        raise GraphDPError(f"--nodes {nodes} is below --train-nodes {train}: it counts all nodes")


def _check_delta(plan: Plan, delta: float | None, arguments: argparse.Namespace) -> str | None:
    """A δ that a model which publishes one protected unit outright would meet: refused where the
    claim is corrected, and where it is the paper's the warning.

    Without --nodes the training nodes stand for all, of which there are no fewer.
    """
    if delta is not None:
        check_delta(delta)
    nodes = arguments.nodes if arguments.nodes is not None else arguments.train_nodes
    known = adjacency(plan.adjacency)
    units = {"edges": arguments.edges, "nodes": nodes}[known.counts] if known else None
    if delta is None or not units:
        return None
    fault = delta_fault(delta, plan.adjacency, units, units)
    if fault and plan.basis == "corrected":
        raise GraphDPError(fault)
    return fault


def render(calibration: Calibration) -> str:
    """The calibration as text: noise, the accounting table, and what the ε means."""
    plan = calibration.plan
    noise = calibration.noise_multiplier
    claim = f"claim under {plan.adjacency}, status {plan.status}"
    if calibration.target_epsilon == math.inf:
        claim = "no noise, no guarantee"
    lines = [
        f"{plan.method}, {plan.level} level, {plan.basis}: {claim}",
        f"noise multiplier: {'none, nothing is released' if noise is None else at_most(noise, 6)}",
        *_deviations(calibration),
        "",
        f"{'accountant':<15}{'epsilon':>10}{'delta':>9}{'order':>7}  method",
    ]
    delta = "-" if calibration.delta is None else f"{calibration.delta:g}"
    for entry in calibration.accounting:
        order = "-" if entry.optimal_order is None else f"{entry.optimal_order:g}"
        library = f" ({entry.library})" if entry.library else ""
        lines.append(
            f"{entry.accountant:<15}{at_most(entry.epsilon, 5):>10}{delta:>9}{order:>7}"
            f"  {entry.method}{library}"
        )
    lines += [
        "",
        *_accountant_line(calibration),
        *(f"- {assumption}" for assumption in plan.assumptions),
        *_delta_line(calibration),
    ]
    if plan.status == "refuted" and calibration.target_epsilon < math.inf:
        lines.append(
            "A counterexample to this claim exists: read its epsilon as none under "
            f"{plan.adjacency}; what holds, if anything does: --calibrate-for corrected."
        )
    return "\n".join(lines)


def _accountant_line(calibration: Calibration) -> list[str]:
    """Where privacy loss distributions are asked for and do not know all that is released."""
    composition, noise = calibration.plan.composition, calibration.noise_multiplier
    if not composition.asks_pld or not noise or composition.is_gaussian or composition.is_pure:
        return []
    if primary(composition) == "pld":
        return []
    others = [term.what for term in composition.terms if "pld" not in term.accountants]
    return [
        f"- Accountant pld does not know {' and '.join(others)}; the ε is by "
        f"{calibration.accounting[0].accountant}."
    ]


def _delta_line(calibration: Calibration) -> list[str]:
    """How large a graph may be for a δ to mean something."""
    known, delta = adjacency(calibration.plan.adjacency), calibration.delta
    if delta is None or known is None or calibration.noise_multiplier is None:
        return []
    most = math.ceil(1 / delta) - 1
    below = f"δ = {delta:g} is below one over the number of {known.counts}"
    return [f"- {below} for at most {most:,} of them."]


def _plans(arguments: argparse.Namespace) -> list[tuple[dict[str, Any], Plan]]:
    """The plan for every choice of what the method's card has tried and that is not given.

    Raises GraphDPError where no choice has a plan.
    """
    tried = registry.card(arguments.method).tried
    free = [name for name in tried if getattr(arguments, name) is None]
    found, refused = [], []
    for values in itertools.product(*(tried[name] for name in free)):
        chosen = dict(zip(free, values, strict=True))
        try:
            found.append((chosen, _plan(arguments, chosen)))
        except GraphDPError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return found


def _noise(result: Calibration) -> dict[str, Any]:
    """The deviations of what is released: by phase, and `noise_std` where all have one."""
    multiplier = result.noise_multiplier or 0.0
    releases = [
        {"phase": m.phase, "query": m.query, **m.noise_levels(multiplier)}
        for m in result.plan.mechanisms
        if not m.releases_nothing
    ]
    found = {one.get("noise_std") for one in releases}
    return {"noise_std": found.pop() if len(found) == 1 else None, "releases": releases}


def _deviations(result: Calibration) -> list[str]:
    """Of each release with Gaussian noise its σ, in words; and who draws what, if several do."""
    lines = []
    for one in _noise(result)["releases"] if result.noise_multiplier else ():
        levels = {name: std for name, std in one.items() if name.startswith("noise_std")}
        words = [
            f"{name.removeprefix('noise_std_').replace('_', ' ')} {at_most(std, 6)}"
            for name, std in levels.items()
        ]
        lines += [f"{', '.join(words)}: {one['query']}"] if words else []
    return lines


def answer(arguments: argparse.Namespace) -> str:
    """The calibration that a command line asks for, as text or JSON. Raises GraphDPError."""
    _check_counts(arguments)
    plans = [(chosen, plan, _delta(arguments, plan)) for chosen, plan in _plans(arguments)]
    _, plan, delta = plans[0]
    warning = _check_delta(plan, delta, arguments)
    best = None
    for chosen, plan, delta in cheapest_first(plans, arguments.epsilon):
        if best and needs_more(plan, arguments.epsilon, delta, best[1].noise_multiplier):
            continue
        result = calibrate(plan, arguments.epsilon, delta, with_pld=True)
        if best is None or (result.noise_multiplier or 0) < (best[1].noise_multiplier or 0):
            best = chosen, result
    chosen, result = best
    if warning:  # of what is answered: a refusal is one line
        print(f"graphdp: warning: {warning}", file=sys.stderr)
    if arguments.json:
        value = result.to_dict() | _noise(result) | ({"chosen": chosen} if chosen else {})
        return json.dumps(value, indent=2, ensure_ascii=False)
    names = ", ".join(f"{name} {value}" for name, value in chosen.items())
    return render(result) + (f"\n\nOf the least noise: {names}." if names else "")
