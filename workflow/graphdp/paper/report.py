"""One self-contained HTML page: what ran, tables, figures, and what every ε means."""

import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from graphdp import io
from graphdp.paper import labels
from graphdp.paper.accuracy_words import claim_label
from graphdp.paper.cells import known
from graphdp.paper.figures import figures as known_figures
from graphdp.paper.markdown import has_long_word, to_html
from graphdp.paper.printing import Printed
from graphdp.paper.rows import read_rows
from graphdp.paper.select import CELL
from graphdp.paper.tables import read_csv
from graphdp.paper.tables import tables as known_tables
from graphdp.privacy.protection import canonical_epsilon, delta_fault, is_private, level_text
from graphdp.privacy.statement_page import split_pages

_TEMPLATES = Path(__file__).parent / "templates"
#: Bytes of statements that a page shows, the shortest first; of the others it has the links. GAP's
#: on four graphs, 3.7 MB, cost a browser a third of a second while they are closed.
_SHOWN = 20_000_000


def build_report(
    rows_csv: str | os.PathLike,
    context: Mapping,
    table_csvs: Mapping[str, str | os.PathLike],
    figure_svgs: Mapping[str, str | os.PathLike],
    output: str | os.PathLike,
    statements: Sequence[str | os.PathLike] = (),
    command: str = "",
) -> None:
    """Write the HTML report from the rows and the artefacts of `build_table` and `build_figure`.

    statements: folders of a dataset's privacy statements, `<method>/<level>/<ε>.md` in each, below
    the folder of `output`. command: what was typed to make the study.
    """
    tidy = {name: read_csv(path, name) for name, path in table_csvs.items()}
    printed = {}
    for name, frame in tidy.items():
        table = known(name, known_tables(), "table")
        printed[table.title] = table.show(frame)
    drawn = {}
    for name, path in figure_svgs.items():
        figure = known(name, known_figures(), "figure")
        svg = Path(path).read_text(encoding="utf-8")
        drawn[figure.title] = (svg, figure.caption + beside(svg))
        if why := why_nothing(svg):  # a line of text: an empty picture takes a reader's screen
            drawn[figure.title] = ("", f"{why[0].upper()}{why[1:]}.")
    gaps = [frame[frame["missing_reason"] != ""] for frame in tidy.values() if "mean" in frame]
    missing = (
        pd.concat(gaps, ignore_index=True).drop_duplicates(list(CELL)) if gaps else pd.DataFrame()
    )
    pages = [page for folder in statements for page in _by_epsilon(Path(folder))]
    read = read_rows(rows_csv)
    told = _statements(pages, Path(output).parent)
    text = render_report(context, read, printed, drawn, missing, told, command)
    io.write_text(output, text)


def render_report(
    context: Mapping,
    rows: pd.DataFrame,
    tables: Mapping[str, Printed],
    figures: Mapping[str, tuple[str, str]],
    missing: pd.DataFrame,
    statements: Sequence[Mapping[str, Any]] = (),
    command: str = "",
) -> str:
    """The report as HTML text, with everything inline.

    `tables` and `figures` map titles to content, in order; a figure is (SVG text, caption), or
    ("", why there is nothing to draw).
    `missing` holds the cells without a result (columns dataset, method, level, epsilon,
    epsilon_basis, adjacency, delta, epsilon_status, missing_reason). statements: name, link and
    parts (settings and HTML, none where it is not to be shown) of each. command: as `build_report`.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["long_word"] = has_long_word
    return environment.get_template("report.html.j2").render(
        title=context.get("title") or context["study"],
        study=context["study"],
        paper=context.get("paper") or "",
        made=_made(rows, command),
        run=_run_summary(rows),
        statements=statements,
        unshown=sum(not statement["parts"] for statement in statements),
        meanings=[
            *_meanings(rows, context.get("calibrations", [])),
            *_large_deltas(context.get("calibrations", []), context.get("statistics", {})),
        ],
        tables={
            name: replace(table, cells=_without_readings(table.cells))
            for name, table in tables.items()
        },
        figures={
            title: (svg and inline_svg(svg, title.lower().replace(" ", "-"), caption), caption)
            for title, (svg, caption) in figures.items()
        },
        calibration=_calibration(context.get("calibrations", [])),
        missing=_missing(missing),
        provenance=_provenance(rows),
    )


def beside(svg: str) -> str:
    """A sentence with what an SVG of `style.save` has no room for, or nothing."""
    told = _metadata(svg, "description")
    return f" Of this picture: {told}." if told else ""


def why_nothing(svg: str) -> str:
    """Why an SVG of `style.save` shows nothing; "" of one that shows something."""
    return _metadata(svg, "title")


def _metadata(svg: str, name: str) -> str:
    found = re.search(rf"<dc:{name}>(.*?)</dc:{name}>", svg, re.DOTALL)
    return html.unescape(found[1]) if found else ""


def inline_svg(svg: str, name: str, description: str) -> str:
    """An SVG file as an HTML element: no prolog, ids unique by `name`, described in words."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-")
    spoken = description.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{spoken}" ', 1)


def _without_readings(cells: pd.DataFrame) -> pd.DataFrame:
    """A table whose columns of ε, one for each analysis and mostly empty, are one: a line for each
    that a row has."""
    readings = [title for title in cells.columns if title.startswith("ε ")]
    if len(readings) < 3:
        return cells
    lines = [
        "\n".join(
            f"{title.removeprefix('ε ')}: {value}"
            for title, value in zip(readings, row, strict=True)
            if value
        )
        for row in cells[readings].itertuples(index=False, name=None)
    ]
    return cells.drop(columns=readings).assign(**{"ε of the same noise by analysis": lines})


def _by_epsilon(folder: Path) -> list[Path]:
    """A dataset's statements, `<method>/<level>/<ε>.md`, in the order of their names and ε."""
    return sorted(folder.rglob("*.md"), key=lambda page: (page.parts[:-1], float(page.stem)))


def _statements(pages: Sequence[Path], folder: Path) -> list[dict[str, Any]]:
    """As `render_report` takes them, in the order of `pages`; the longest are not shown where all
    are too much for a page."""
    found, shown, left = [], set(), _SHOWN
    for page in sorted(pages, key=lambda page: page.stat().st_size):
        left -= page.stat().st_size
        shown |= {page} if left >= 0 else set()
    for page in pages:
        dataset, method, level, epsilon = (
            page.relative_to(folder / "statements").with_suffix("").parts
        )
        at = level_text(level) + (f", target ε {epsilon}" if is_private(level) else "")
        found.append(
            {
                "name": f"{dataset}, {labels.method_label(method, level)} ({at})",
                "link": str(page.relative_to(folder)),
                "parts": _parts(page.read_text(encoding="utf-8")) if page in shown else [],
            }
        )
    return found


def _parts(text: str) -> list[tuple[str, str]]:
    """(in which settings it differs from the others, HTML) of each statement of a file."""
    parts = split_pages(text)
    settings = [settings.split(", ") for settings, _ in parts]
    common = set.intersection(*map(set, settings))
    return [
        (", ".join(one for one in own if one not in common) or ", ".join(own), to_html(page))
        for own, (_, page) in zip(settings, parts, strict=True)
    ]


def _made(rows: pd.DataFrame, command: str) -> list[tuple[str, str]]:
    """When and how the page was made, and the commits of its models."""
    when = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
    commits = sorted(commit for commit in rows["git_commit"].unique() if commit)
    lines = [("page made", when), ("commit of the models", ", ".join(commits) or "not recorded")]
    return [*lines, ("command", command)] if command else lines


def _run_summary(rows: pd.DataFrame) -> list[tuple[str, str]]:
    models = f"{len(rows):,}"
    if rows.empty:
        return [("models trained", "0")]
    seeds = rows.groupby(["dataset", "method", "level", "epsilon"])["seed"].nunique()
    low, high = seeds.min(), seeds.max()
    return [
        ("models trained", models),
        ("datasets", ", ".join(dict.fromkeys(rows["dataset"]))),
        ("seeds per cell", f"{low}" if low == high else f"{low} to {high}"),
        ("CPU time, all models", duration(rows["cpu_seconds"].sum())),
        ("wall time, all models added up", duration(rows["wall_seconds"].sum())),
        ("largest memory of a job", f"{rows['peak_rss_mb'].max():,.0f} MB"),
        ("checkpoint", ", ".join(c.replace("_", " ") for c in sorted(rows["checkpoint"].unique()))),
        *([("Gaussian noise", _noise(rows))] if (rows["noise"] != "").any() else []),
    ]


def _noise(rows: pd.DataFrame) -> str:
    """What drew the noise of how many models."""
    counts = rows.loc[rows["noise"] != "", "noise"].value_counts().sort_index()
    return "; ".join(f"{name}: {count:,} models" for name, count in counts.items())


def duration(seconds: float) -> str:
    """Seconds for people: "45.2 s", "12 min 5 s", "3 h 20 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min"


def _meanings(rows: pd.DataFrame, calibrations: list[Mapping]) -> list[tuple[str, str, list[str]]]:
    """(which methods, what their ε means, its assumptions), one for each kind of claim."""
    assumptions = {
        (c["method"], c["level"]): c["assumptions"] for c in calibrations if c.get("assumptions")
    }
    kinds: dict[tuple, dict] = {}
    claims = rows[["method", "level", "adjacency", "epsilon_status"]].drop_duplicates()
    for row in claims.itertuples():
        private = is_private(row.level)
        key = (row.level, row.adjacency, row.epsilon_status) if private else ("none", "", "")
        kind = kinds.setdefault(key, {"methods": set(), "assumptions": {}})
        kind["methods"].add(labels.method_label(row.method, row.level))
        kind["assumptions"] |= dict.fromkeys(assumptions.get((row.method, row.level), []))
    meanings = [
        (", ".join(sorted(kind["methods"])), labels.explain(*key), list(kind["assumptions"]))
        for key, kind in sorted(kinds.items())
    ]
    edge_free = sorted(set(claims["method"]) & labels.edge_free_methods())
    if edge_free:
        names = ", ".join(labels.method_label(method, "edge") for method in edge_free)
        meanings.append((f"{names} at edge level", labels.EDGE_FREE_MEANING, []))
    if older := int((rows["noise"] == labels.OLDER_NOISE).sum()):
        meanings.append(
            (f"Noise by {labels.OLDER_NOISE}, {older:,} models", labels.LATTICE_MEANING, [])
        )
    return meanings


def _large_deltas(
    calibrations: list[Mapping], statistics: Mapping[str, Mapping]
) -> list[tuple[str, str, list[str]]]:
    """As `_meanings`, of every δ that allows to publish a protected unit."""
    found: dict[str, set] = {}
    for entry in calibrations:
        size = statistics.get(entry["dataset"])
        if not size or not entry.get("adjacency") or not entry.get("delta"):
            continue
        fault = delta_fault(entry["delta"], entry["adjacency"], size["edges"], size["nodes"])
        if fault:
            about = f"{labels.method_label(entry['method'], entry['level'])} on {entry['dataset']}"
            found.setdefault(f"Warning: {fault}.", set()).add(about)
    return [(", ".join(sorted(about)), fault, []) for fault, about in found.items()]


def _calibration(calibrations: list[Mapping]) -> pd.DataFrame:
    def value(number) -> str:
        return "" if number is None else f"{float(number):.6g}"

    lines = []
    for entry in calibrations:
        if not is_private(entry["level"]):
            continue
        setting = entry.get("hyperparameters") or {}
        if isinstance(setting, str):
            setting = json.loads(setting)
        epsilon = canonical_epsilon(entry["epsilon"])
        delta = entry.get("delta")
        lines.append(
            {
                "dataset": entry["dataset"],
                "method": labels.method_label(entry["method"], entry["level"]),
                "calibrated for": labels.epsilon_label(
                    entry["level"],
                    epsilon,
                    entry.get("basis") or "",
                    [] if delta is None else [float(delta)],
                    entry.get("status") or "",
                    entry.get("adjacency") or "",
                ),
                "setting": ", ".join(f"{k} {v}" for k, v in sorted(setting.items())),
                "noise multiplier": value(entry.get("noise_multiplier")),
                "same ε as accounted": value(entry.get("epsilon_accounted")),
                "by": entry.get("accountant") or "",
                "by dp-accounting (RDP)": value(entry.get("epsilon_dp_accounting")),
            }
        )
    # One entry per number of training nodes; most of them calibrate to the same noise.
    return pd.DataFrame(lines).drop_duplicates()


def _missing(missing: pd.DataFrame) -> pd.DataFrame:
    lines = [
        {
            "dataset": cell["dataset"],
            "method": labels.method_label(cell["method"], cell["level"]),
            "privacy": claim_label([cell]),
            "reason": cell["missing_reason"],
        }
        for cell in missing.to_dict("records")
    ]
    return pd.DataFrame(lines)


def _provenance(rows: pd.DataFrame) -> list[tuple[str, str]]:
    lines = []
    for name, title in (("git_commit", "commit"), ("device", "device")):
        values = sorted(value for value in rows[name].unique() if value)
        lines.append((title, ", ".join(values) or "not recorded"))
    versions: dict[str, set] = {}
    for text in rows["versions"].unique():
        for library, version in (json.loads(text) if text else {}).items():
            versions.setdefault(library, set()).add(str(version))
    lines += [(library, ", ".join(sorted(versions[library]))) for library in sorted(versions)]
    return lines
