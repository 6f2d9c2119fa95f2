"""The outcomes of the audits as a table and a figure, and those of one run that are shipped.

    python -m graphdp.audit.outcomes

ships what `snakemake audit` left in `results/audit`: a line for each claim, of which `make redraw`
draws the figure of the documentation.
"""

import gzip
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETLEFT
from matplotlib.transforms import blended_transform_factory

from graphdp import io
from graphdp.audit import claims, detectable
from graphdp.commands import without_arguments
from graphdp.errors import GraphDPError
from graphdp.methods import registry
from graphdp.paper import printing, style
from graphdp.paper.labels import basis_text, delta_text, epsilon_label
from graphdp.paper.printing import Printed
from graphdp.privacy.rounding import at_least, at_most

#: What is shipped.
FILE = Path(__file__).parents[2] / "report" / "audits.json.gz"
_EXPECTED = {
    "exceeds": "must exceed the claim",
    "below": "must stay below",
    "tight": "must come within 15 %",
}
_PALETTE = sns.color_palette("colorblind")
#: verdict -> (colour, marker, words)
_VERDICTS = {
    "refuted": (_PALETTE[3], "X", "above the claim: it does not hold as read here"),
    "tight": (_PALETTE[0], "o", "within 15 % of the claim: tight"),
    "consistent": (_PALETTE[7], "s", "below the claim: consistent with it"),
}
#: What all audits share; a method's `audit.NOTES` follow, if it has any.
_NOTES = (
    "Each lower bound holds with 95 % confidence (failure probability 5 %): one half of the runs "
    "chooses the threshold, Clopper-Pearson bounds the rates on the other half.",
    "A bound below a claim does not prove the claim; one above it refutes it, for the code, the "
    "noise and the adjacency stated.",
    "gdp: the claim is one of μ-GDP (Gaussian releases of bounded sensitivity), so the bound is on "
    "μ and is converted at δ. noise: the rates bound the noise multiplier of the plan's own steps. "
    "dp: no assumption; no bound can then exceed ln(runs / 7.4).",
    "One run: 95 % over the coins of the canaries and the noise of one training; the guesses are "
    "held against the trade-off of the plan's own steps.",
    "Detectable factor: the smallest multiple of the right noise at which the audit stays quiet, "
    "of the factors 2^(-k/4) down to 1/8 (one seed): at the next smaller one it refutes its claim.",
)


def _notes() -> tuple[str, ...]:
    """What is printed below the table: of all audits, and of each method's."""
    modules = map(import_module, registry.modules("audit").values())
    own = (note for module in modules for note in getattr(module, "NOTES", ()))
    return (*_NOTES, *own)


def read(paths: Sequence[str | os.PathLike]) -> list[dict[str, Any]]:
    """The results of `claims.run`, by family; GraphDPError for a file that is none."""
    found = []
    for path in paths:
        result = io.read_json(path)
        if "lower_bound" not in result or result.get("verdict") not in _VERDICTS:
            raise GraphDPError(f"{path} is no audit result: delete it and run the audit again")
        found.append(result)
    return _by_family(found)


def _by_family(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    families = list(dict.fromkeys(result["family"] for result in results))
    return sorted(results, key=lambda result: families.index(result["family"]))


def shipped(method: str | None = None) -> list[dict[str, Any]]:
    """The results in `FILE`, as `read` gives them: all, or those of a method's folder."""
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        found = _by_family([json.loads(line) for line in lines])
    home = f"{registry.__package__}.{method}.audit"
    return [one for one in found if method is None or claims.home(one["claim"]) == home]


def ship(folder: Path, file: Path = FILE) -> None:
    """Put the results of all claims, which stand in `folder`, into a file: equal ones give equal
    bytes. Raises `GraphDPError` if one is missing, or did not come out as it must."""
    paths = [folder / f"{name}.json" for name in claims.claims()]
    if missing := [path.stem for path in paths if not path.exists()]:
        raise GraphDPError(
            f"{folder} has no result of {len(missing)} claims, {missing[0]} first: run "
            "snakemake --cores all audit"
        )
    check(results := read(paths))
    lines = "".join(f"{json.dumps(one, sort_keys=True, allow_nan=False)}\n" for one in results)
    with io.atomic_path(file) as temporary:
        temporary.write_bytes(gzip.compress(lines.encode(), mtime=0))


def check(results: Sequence[Mapping[str, Any]]) -> None:
    """Raises GraphDPError, with names, if an audit did not come out as expected."""
    wrong = [
        f"{result['claim']} (bound {at_least(result['lower_bound'], 3)}, claimed "
        f"{at_most(result['claimed_epsilon'], 3)}, {_EXPECTED[result['expected']]})"
        for result in results
        if not result["as_expected"]
    ]
    if wrong:
        raise GraphDPError(
            f"{len(wrong)} of {len(results)} audits came out UNEXPECTED: {'; '.join(wrong)}; see "
            "results/audit/audit.md"
        )


def tidy(results: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """One line per claim; an ε never without basis, adjacency, δ and status."""
    columns = (
        "claim", "family", "title", "attacks", "method", "level", "basis", "status",
        "claimed_adjacency", "adjacency", "delta", "claimed_epsilon", "noise_multiplier",
        "lower_bound", "analysis", "confidence", "failure_probability", "draws", "seed",
        "expected", "verdict", "as_expected",
    )  # fmt: skip
    factors = _factors(results)
    lines = [{name: result[name] for name in columns} for result in results]
    return pd.DataFrame(
        [line | {"detectable_factor": factors[line["claim"]]} for line in lines],
    )


def _factors(results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Claim -> its detectable factor, in words where it has none."""
    known, lines = claims.claims(), detectable.shipped()
    return {r["claim"]: detectable.factor(r["claim"], known, lines) for r in results}


def show(results: Sequence[Mapping[str, Any]]) -> Printed:
    """The table for people."""
    factors = _factors(results)
    lines = [
        {
            "attack": f"{result['family']}: {result['title']}",
            "claim": _claim(result),
            "worlds differ in": result["adjacency"],
            "audited lower bound": f"{at_least(result['lower_bound'], 3)} (95 %, {_runs(result)}, "
            f"{result['analysis']})",
            "detectable factor": factors[result["claim"]],
            "outcome": _outcome(result),
        }
        for result in results
    ]
    caption = (
        "Audits: the ε that is claimed for the noise in use, and the lower bound on ε at the same "
        "δ that an attack on the project's own code reaches."
    )
    return Printed(caption, pd.DataFrame(lines), _notes())


def _claim(result: Mapping[str, Any]) -> str:
    return epsilon_label(
        result["level"],
        at_most(result["claimed_epsilon"], 3),
        result["basis"],
        [result["delta"]],
        result["status"],
        result["claimed_adjacency"],
    )


def _runs(result: Mapping[str, Any]) -> str:
    details = result["details"]
    if "canaries" in details:
        return f"{details['canaries']:,} canaries, {details['guesses']} guesses"
    return f"{result['draws']:,} runs per world"


def _outcome(result: Mapping[str, Any]) -> str:
    if result["as_expected"]:
        return result["verdict"]
    return f"{result['verdict']}, but {_EXPECTED[result['expected']]}: UNEXPECTED"


def draw(results: Sequence[Mapping[str, Any]]) -> Figure:
    """Claims on rows, grouped by family: the claimed ε as a tick, the lower bound as a bar."""
    with style.theme():
        return _draw(results)


def _draw(results: Sequence[Mapping[str, Any]]) -> Figure:
    factors = _factors(results)
    families = list(dict.fromkeys(result["family"] for result in results))
    lines = len(results) + 2 * len(families)
    figure = Figure(figsize=(10, 0.205 * lines + 1.5), layout="constrained")
    # The layout ends a long number a few points beyond the edge.
    figure.get_layout_engine().set(w_pad=0.15)
    axes = figure.subplots()
    left = 0.25
    largest = max(max(r["lower_bound"], r["claimed_epsilon"]) for r in results)
    place, ticks, names = 0.0, [], []
    for family in families:
        group = [result for result in results if result["family"] == family]
        # From the left edge of the figure: the labels stand on other lines.
        heading = axes.text(
            0.008,
            place,
            _heading(group),
            transform=blended_transform_factory(figure.transFigure, axes.transData),
            va="center",
            fontweight="bold",
            color="0.15",
            # A long one goes on over the plot: no line of the grid runs through it.
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
        heading.set_in_layout(False)
        for result in group:
            place += 1
            ticks.append(place)
            names.append(_row(result, group))
            _line(axes, result, place, left, factors[result["claim"]])
        place += 2
    axes.set_xscale("log")
    # A third of the width is left for the numbers beside the longest bar, on a logarithmic axis.
    right = left * (max(largest, 4.0) / left) ** (1 / (1 - 0.32))
    axes.set_xlim(left, right)
    ticks_shown = [tick for tick in (left * 2**power for power in range(10)) if tick < right]
    axes.set_xticks(ticks_shown, [f"{tick:g}" for tick in ticks_shown])
    axes.minorticks_off()
    # Longer than a screen, its axis and what the colours mean stand at both ends.
    ends = ("upper", "lower") if lines > 60 else ("lower",)
    axes.tick_params(axis="x", labeltop=len(ends) > 1)
    axes.set_ylim(place - 1.2, -0.9)
    axes.set_yticks(ticks, names)
    axes.grid(visible=False, axis="y")
    below = "; arrow: below the axis" if any(r["lower_bound"] < left for r in results) else ""
    axes.set_xlabel(
        f"ε at the claim's δ (claimed: tick; audited lower bound, 95 % confidence: bar{below})\n"
        "sees 0.5 σ: refutes its claim if half of the noise is drawn"
    )
    handles = [Line2D([], [], color="black", marker="|", ms=11, mew=2, ls="", label="claimed ε")]
    for colour, marker, words in _VERDICTS.values():
        handles.append(
            Line2D([], [], color=colour, marker=marker, lw=3, ms=6, label=f"lower bound {words}")
        )
    for end in ends:
        figure.legend(handles=handles, loc=f"outside {end} center", ncols=2, frameon=False)
    return figure


def _heading(group: Sequence[Mapping[str, Any]]) -> str:
    """What all of a family's ε have in common."""
    claimed = " or ".join(dict.fromkeys(basis_text(one["basis"]) for one in group))
    if status := _common(group, "status"):
        claimed += f", {status}"
    if adjacency := _common(group, "claimed_adjacency"):
        claimed += f" for {adjacency}"
        worlds = _common(group, "adjacency")
        if worlds and worlds != adjacency:
            # A claim that is proven says nothing of other worlds.
            claimed += f" alone, read here for {worlds}"
    return f"{group[0]['family']}  (ε {claimed})"


def _common(group: Sequence[Mapping[str, Any]], key: str) -> str | None:
    """What a family's claims all have there, None where they differ."""
    found = {result[key] for result in group}
    return found.pop() if len(found) == 1 else None


def _row(result: Mapping[str, Any], group: Sequence[Mapping[str, Any]]) -> str:
    """What stands beside a line: all of its ε's label that the heading does not have."""
    own = [result[key] for key in ("claimed_adjacency", "status") if not _common(group, key)]
    return ", ".join([result["title"], *own, f"δ = {delta_text(result['delta'])}"])


def _line(axes, result: Mapping[str, Any], place: float, left: float, factor: str) -> None:
    colour, marker, _ = _VERDICTS[result["verdict"]]
    claimed, bound = result["claimed_epsilon"], result["lower_bound"]
    if bound < left:
        axes.plot([left], [place], color=colour, marker=CARETLEFT, ms=8, ls="", clip_on=False)
    else:
        axes.plot([left, bound], [place, place], color=colour, lw=3.5, alpha=0.55)
        axes.plot([bound], [place], color=colour, marker=marker, ms=6, ls="")
    axes.plot([claimed], [place], color="black", marker="|", ms=11, mew=2, ls="", zorder=3)
    text = f"≥ {at_least(bound, 3)}, claimed {at_most(claimed, 3)}"
    if "caught at" in factor:
        text += f"; sees {factor.rpartition(' ')[2]} σ"
    if not result["as_expected"]:
        text += " (UNEXPECTED)"
    axes.annotate(
        text,
        (max(bound, claimed), place),
        xytext=(9, 0),
        textcoords="offset points",
        va="center",
        fontsize=7.5,
    )


def write(
    results: Sequence[Mapping[str, Any]],
    *,
    csv: str | os.PathLike,
    md: str | os.PathLike,
    tex: str | os.PathLike,
    svg: str | os.PathLike,
    png: str | os.PathLike,
) -> None:
    """Write the table (tidy CSV, Markdown, LaTeX) and the figure (SVG, PNG)."""
    with io.atomic_path(csv) as temporary:
        tidy(results).to_csv(temporary, index=False, lineterminator="\n")
    printed = show(results)
    io.write_text(md, printing.to_markdown(printed))
    io.write_text(tex, printing.to_latex(printed, "audit"))
    style.save(draw(results), svg, png)


if __name__ == "__main__":
    without_arguments("graphdp.audit.outcomes", __doc__)
    try:
        ship(Path("results/audit"))
    except GraphDPError as error:
        sys.exit(f"error: {error}")
