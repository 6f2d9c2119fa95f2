"""PNPiGNNs' figures that no trained model is in: impact, noise, its tail; and that of audits."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphdp import io
from graphdp.audit import membership
from graphdp.methods.heterpoisson import numbers
from graphdp.paper import style
from graphdp.paper.labels import basis_text, method_name
from graphdp.paper.panels import empty_panel, set_ticks
from graphdp.rng import generator

#: Where `snakemake audit` leaves its results.
AUDITS = Path("results/audit")
_SML, _GAUSSIAN, _LAPLACE = "#56b4e9", "#333333", "#d55e00"
_DRAWS, _SCATTERED = 10**6, 4000
_NODE = "δ = 2.41e-5, PubMed: N = 15,773, q = 0.26, T = 35"


def figure1(rows: pd.DataFrame, context: Mapping) -> Figure:
    """‖g* − g'‖ against χ. Left as printed, of the mean loss; right of the clipped sum that the
    method releases, beside what its proof allows."""
    lines = numbers.shipped("impact")
    with style.theme():
        figure, axes = style.panels(1, 2)
        colour = style.method_style("heterpoisson")[0]
        for ax, name, title in zip(
            axes[0],
            ("mean loss", "clipped sum"),
            ("gradient of the mean loss", "sum of clipped gradients, C = 1"),
            strict=True,
        ):
            low, mean, high = (
                lines[lines["series"] == f"{name}, {which}"]
                for which in ("lowest", "mean", "highest")
            )
            ax.fill_between(low["x"], low["y"], high["y"], color=colour, alpha=0.35, lw=0)
            ax.plot(mean["x"], mean["y"], color="#7a3b69", marker="o", label="mean and range")
            ax.set_title(title)
            ax.set_xlabel("χ: out-edges of the new node over n")
            ax.set_ylabel("‖g* − g'‖")
        bound = lines[lines["series"] == "bound"]
        axes[0][1].plot(
            bound["x"], bound["y"], color=_GAUSSIAN, ls="--", label="½ + χ n, the bound"
        )
        axes[0][1].set_yscale("log")
        axes[0][1].legend(frameon=False)
        return figure


def figure4(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Noise of standard deviation 1: histograms on a line, and draws in the plane."""
    with style.theme():
        figure, axes = style.panels(1, 2)
        figure.set_size_inches(11, 3.6)
        axes[0][0].get_gridspec().set_width_ratios([1, 1.75])
        draws = generator("pnpignn", "figure 4")
        line, plane = axes[0]
        for name, values, colour in (
            ("SML", sml(draws, _DRAWS, 1)[:, 0], _SML),
            ("Laplace", draws.laplace(scale=2**-0.5, size=_DRAWS), _LAPLACE),
            ("Gaussian", draws.standard_normal(_DRAWS), _GAUSSIAN),
        ):
            heights, edges = np.histogram(values, bins=np.linspace(-5, 5, 101))
            ls = "--" if name == "Laplace" else "-"
            line.stairs(heights / _DRAWS * 10, edges, color=colour, label=name, ls=ls, lw=1.5)
        line.set_xlabel("one coordinate")
        line.set_ylabel("density, 10⁶ draws")
        line.legend(frameon=False)
        for name, values, colour, shift in (
            ("SML", sml(draws, _SCATTERED, 2), _SML, (0, 0)),
            ("independent Laplace", draws.laplace(scale=2**-0.5, size=(_SCATTERED, 2)), _LAPLACE,
             (9, 0)),
            ("Gaussian", draws.standard_normal((_SCATTERED, 2)), _GAUSSIAN, (18, 0)),
        ):  # fmt: skip
            x, y = (values + shift).T
            plane.scatter(x, y, s=2, alpha=0.25, color=colour, linewidths=0, rasterized=True)
            plane.text(shift[0], 6.2, name, ha="center", color=colour)
        plane.set_xlim(-6, 24)
        plane.set_ylim(-7, 7.5)
        plane.set_aspect("equal")
        plane.set_xlabel(f"two coordinates, {_SCATTERED:,} draws each, centres shifted")
        return figure


def sml(draws: np.random.Generator, count: int, coordinates: int) -> np.ndarray:
    """SML noise of standard deviation 1 in each coordinate (Algorithm 4): (count, coordinates)."""
    scale = np.sqrt(draws.exponential(size=(count, 1)))
    return scale * draws.standard_normal((count, coordinates))


def tail(rows: pd.DataFrame, context: Mapping) -> Figure:
    """δ(ε) at the published σ: as claimed, a lower bound on the true one, and an attack."""
    lines = numbers.shipped("tail")
    (noise,) = lines.loc[lines["series"] == "noise", "y"]
    with style.theme():
        figure, _, (ax,) = style.titled_panels(["SML noise: what is claimed and what is true"])
        for series, colour, shape, label in (
            ("claimed", _SML, {"ls": "--"}, "claimed (Theorems 1 and 2)"),
            ("at least", "#7a3b69", {}, "at least, as d → ∞, a node that no list holds"),
            ("attack", _LAPLACE, {"ls": "none", "marker": "X", "markersize": 7},
             f"shown by attack (95 %), d = {numbers.COORDINATES:,}"),
        ):  # fmt: skip
            mine = lines[(lines["series"] == series) & (lines["y"] > 1e-12)]
            ax.plot(mine["x"], mine["y"], color=colour, label=label, **shape)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(1e-8, 1)
        ax.axvline(2, color="0.6", lw=0.8, ls=":")
        ax.set_xticks([0.5, 1, 2, 4, 8, 16, 32, 64], ["0.5", "1", "2", "4", "8", "16", "32", "64"])
        ax.minorticks_off()
        ax.set_xlabel(
            f"ε (node level, adjacency participant); σ = {noise:.2f}, set for a\n"
            f"claimed ε = 2 at {_NODE}, M = 1"
        )
        ax.set_ylabel("δ")
        ax.legend(frameon=False, loc="upper right")
        return figure


def noise_by_lists(rows: pd.DataFrame, context: Mapping) -> Figure:
    """σ by each analysis against the number of lists that hold the node, a panel per M."""
    lines = numbers.shipped("lists")
    names = [name for name, *_ in numbers.ANALYSES]
    kept = style.method_style("heterpoisson")[0]
    looks = dict(zip(names, (kept, "#7a3b69", "#b5651d"), strict=True))
    with style.theme():
        figure, axes = style.panels(1, 3)
        for neighbors, ax in zip((1, 2, 4), axes[0], strict=True):
            for (name, overlap, _), marker in zip(numbers.ANALYSES, "osv", strict=True):
                mine = lines[lines["series"] == f"{name}, M = {neighbors}"]
                ax.plot(mine["x"], mine["y"], color=looks[name], marker=marker,
                        label=f"{name} (overlaps {overlap})")  # fmt: skip
            ax.set_xscale("log")
            ax.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
            ax.minorticks_off()
            ax.set_title(f"M = {neighbors}")
            ax.set_xlabel("lists that hold the node, D")
        axes[0][0].set_ylabel("σ, noise over C")
        _explained(
            figure, axes, f"σ for ε = 2 (node level, participant, corrected, conditional; {_NODE}) "
            "of a node in exactly D lists; a plan takes the largest over all D",
        )  # fmt: skip
        return figure


def noise_by_overlap(rows: pd.DataFrame, context: Mapping) -> Figure:
    """σ with overlaps kept and dropped against M, a panel per graph."""
    lines = numbers.shipped("overlap")
    names = list(numbers.TRAINING_NODES)
    with style.theme():
        figure, axes, titled = style.titled_panels(names)
        for name, ax in zip(names, titled, strict=True):
            for what, colour, shape in (
                ("as published (SML)", _SML, {"ls": "--", "marker": "*"}),
                ("dropped", "#7a3b69", {"marker": "v"}),
                ("kept", style.method_style("heterpoisson")[0], {"marker": "P"}),
            ):
                mine = lines[lines["series"] == f"{name}, {what}"]
                label = what if "SML" in what else f"Gaussian, overlaps {what}"
                ax.plot(mine["x"], mine["y"], color=colour, label=label, **shape)
            set_ticks(ax, [1, 2, 3, 4])
            ax.set_ylim(bottom=0)
            ax.set_title(f"{name}, N = {numbers.TRAINING_NODES[name]:,}")
            ax.set_xlabel("M")
            ax.set_ylabel("σ, noise over C")
        _explained(
            figure, axes, "σ for ε = 2 (node level, participant, δ = N^-1.1); Gaussian: corrected, "
            "conditional; SML: claimed ε, as published, refuted",
        )  # fmt: skip
        return figure


def _explained(figure: Figure, axes: list[list[Axes]], text: str) -> None:
    """A legend above all panels, and a sentence below."""
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncol=3, frameon=False)
    style.footnote(figure, [text])


# --- Figure 8 -------------------------------------------------------------------------------------

_OURS, _NDP = "HeterPoisson", "NDP (DP-GNN)"


def figure8(rows: pd.DataFrame, context: Mapping) -> Figure:
    """Attacks as shipped, and audits of what `snakemake audit` has left."""
    return attacks_and_audits(pd.read_csv(membership.FILE), read_audits(AUDITS))


AUDIT_COLUMNS = ("method", "variant", "epsilon", "lower_bound")


def read_audits(folder: Path) -> pd.DataFrame:
    """Of audit results, what panels b and d show: a line for each, with AUDIT_COLUMNS."""
    found = []
    for path in sorted(folder.glob("*.json")):
        result = io.read_json(path)
        method = result.get("method", "")
        if _target(method) == _OURS or (method == "sage" and result["level"] == "node"):
            variant = f"{basis_text(result['basis'])}, {result['status']}"
            found.append((method, variant, result["claimed_epsilon"], result["lower_bound"]))
    return pd.DataFrame(found, columns=list(AUDIT_COLUMNS))


def _target(method: str) -> str:
    return _OURS if method.startswith("heterpoisson") else _NDP


def attacks_and_audits(attacks: pd.DataFrame, audits: pd.DataFrame) -> Figure:
    """Figure 8: accuracy of membership inference (a, c) and audited ε (b, d) against the claim.

    attacks: as `graphdp.audit.membership` writes them. audits: as of `read_audits`. Lower bounds
    hold with 95 % confidence. A panel without a line says so.
    """
    attacks = attacks.assign(
        variant=[f"{a}, {s}" for a, s in zip(attacks["attack"], attacks["status"], strict=True)]
    )
    places = [
        (f"({letter}) {what}, {target}", target, column)
        for letter, what, target, column in (
            ("a", "membership inference", _OURS, "accuracy"),
            ("b", "audit", _OURS, "lower_bound"),
            ("c", "membership inference", _NDP, "accuracy"),
            ("d", "audit", _NDP, "lower_bound"),
        )
    ]
    with style.theme():
        figure, _, titled = style.titled_panels([title for title, *_ in places])
        for (_, target, column), ax in zip(places, titled, strict=True):
            mine = audits if column == "lower_bound" else attacks
            mine = mine[mine["method"].map(_target) == target]
            mine = mine[np.isfinite(mine["epsilon"].astype(float))]
            if mine.empty:
                empty_panel(ax, "no such audit has been run")
                continue
            for number, ((method, variant), line) in enumerate(
                mine.groupby(["method", "variant"], sort=False)
            ):
                values = line[column].astype(float) * (100 if column == "accuracy" else 1)
                ax.plot(
                    line["epsilon"],
                    values,
                    ls="-" if column == "accuracy" else "none",
                    lw=0.8,
                    color=style.method_style(method)[0],
                    marker=style.SERIES_MARKERS[number % len(style.SERIES_MARKERS)],
                    label=f"{method_name(method)}: {variant}",
                )
            if column == "lower_bound":
                ax.set_xlabel("claimed ε (δ, adjacency: results/audit/audit.md)")
                top = float(mine["epsilon"].max()) * 1.1
                ax.plot([0, top], [0, top], color="0.5", ls="--", lw=1, label="the claim")
                ax.set_ylabel("lower bound on ε, 95 %")
            else:
                ax.set_xlabel(f"claimed ε ({_said(mine)})")
                ax.axhline(50, color="0.5", ls="--", lw=1, label="guessing")
                ax.set_ylabel("attack accuracy, %")
            ax.margins(y=0.2)
            ax.legend(fontsize=7, framealpha=0.8, edgecolor="none")
        return figure


def _said(attacks: pd.DataFrame) -> str:
    """Adjacency and δ of attacks, which are the same for all of a panel."""
    ((adjacency, delta),) = {*zip(attacks["adjacency"], attacks["delta"], strict=True)}
    return f"{adjacency}, δ = {delta:g}"
