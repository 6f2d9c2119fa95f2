"""Figures and tables of the documentation from shipped rows, without training.

    make redraw

writes every figure that `workflow/report/shipped.yaml` says how to draw, every table in README and
docs that stands between

    <!-- module:function argument -->
    <!-- end -->

(the function yields its lines; it may have no argument), and `workflow/report/manifest.json`. Equal
rows and libraries give equal bytes. New rows need no more than this command.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from graphdp import io, noise
from graphdp.audit import outcomes
from graphdp.commands import without_arguments
from graphdp.errors import GraphDPError
from graphdp.methods.registry import cards
from graphdp.paper import coverage as runs
from graphdp.paper import overview, style
from graphdp.paper.cells import experiment_rows, known
from graphdp.paper.costs import Costs
from graphdp.paper.figures import figures
from graphdp.paper.pages import expected_table, where_it_stands
from graphdp.paper.rows import IDENTITY
from graphdp.paper.select import select_best
from graphdp.paper.shipped import (
    FOLDER,
    shipped_attacks,
    shipped_context,
    shipped_rows,
    shipped_study,
)
from graphdp.privacy.protection import is_private
from graphdp.progress import progress

MANIFEST = FOLDER / "manifest.json"
_TABLE = re.compile(
    r"(<!-- (graphdp[\w.]+):(\w+)(?: ([\w-]+))? -->\n)(?:(?!<!--).)*(<!-- end -->)", re.DOTALL
)


def shipped(*, drawn: bool = True) -> dict[str, Any]:
    """What `shipped.yaml` says. drawn: whether its figures have to be there.

    Raises `GraphDPError` if it and the folder's files differ.
    """
    said = io.read_yaml(FOLDER / "shipped.yaml")
    needed = {*said["rows"], *said["attacks"], *said["audits"]}
    named = needed | {*said["figures"]}
    found = {path.name for path in FOLDER.iterdir() if path.suffix in (".png", ".gz")}
    for name in sorted((found - named) | ((named if drawn else needed) - found)):
        fault = "is not there" if name in named else "is not named"
        raise GraphDPError(f"workflow/report/shipped.yaml: {name} {fault}; correct the entry")
    return said


def config_of(rows: str) -> str:
    """The configuration that shipped rows were trained with; rows: as for `shipped_rows`. Raises
    `GraphDPError` if `shipped.yaml` names no such file."""
    said = shipped(drawn=False)["rows"]
    for name, config in said.items():
        if fnmatch(name, rows):
            return config
    raise GraphDPError(f"workflow/report/shipped.yaml: rows lacks {rows}; correct the entry")


def draw(name: str, folder: Path = FOLDER) -> None:
    """Draw a figure of `shipped.yaml`, by its file's name, into `folder`.

    Raises `GraphDPError` if none has that name.
    """
    style.save_small(figure_of(name), folder / name)


def figure_of(name: str) -> Figure:
    """A figure of `shipped.yaml`, by its file's name. Raises `GraphDPError` if none has that."""
    said = shipped(drawn=False)
    entry = known(name, said["figures"], "shipped figure")
    if "audits" in entry:
        return outcomes.draw(outcomes.shipped(entry["method"]))
    if "panels" in entry:
        return overview.draw([page(method).overview() for method in entry["panels"]])
    context = shipped_context(config_of(entry["rows"]), entry["datasets"])
    drawing = known(entry["figure"], figures(), "figure")
    return drawing.draw(shipped_rows(entry["rows"]), context)


def page(method: str) -> ModuleType:
    """The module that writes a method's numbers in the documentation."""
    return import_module(f"graphdp.methods.{method}.page")


def pages() -> list[Path]:
    """The pages that may have tables to be written."""
    return [Path("README.md"), *sorted(Path("docs").glob("*.md"))]


def with_tables(text: str) -> str:
    """A page's text with its tables as the shipped rows give them.

    Raises `GraphDPError` if a comment names what there is not, or none ends its table.
    """
    ended = [found.start() for found in _TABLE.finditer(text)]
    for begun in re.finditer(r"<!-- graphdp[^>]*-->", text):
        if begun.start() not in ended:
            raise GraphDPError(f"{begun.group()} has no <!-- end --> before the next comment")

    def write(found: re.Match) -> str:
        before, module, function, argument, after = found.groups()
        try:
            lines = getattr(import_module(module), function)
        except (ImportError, AttributeError):
            raise GraphDPError(f"there is no {module}:{function}; correct the comment") from None
        written = lines(argument) if argument else lines()
        return before + "\n" + "\n".join(written) + "\n\n" + after

    return _TABLE.sub(write, text)


def beside(name: str) -> Iterator[str]:
    """What a shipped figure (its file's name, without ".png") has no room for, in a sentence."""
    with Image.open(FOLDER / f"{name}.png") as picture:
        told = picture.text.get("Description", "")
    yield f"Of this picture: {told}." if told else "The picture says all of itself."


def coverage(paper: str) -> Iterator[str]:
    """The lines of docs/coverage.md on a paper: what of its grid has shipped models, on the graphs
    of these, the paper's own, and those that stand in for them."""
    said = shipped()
    entry = known(paper, said["papers"], "paper with shipped rows")
    rows, config = shipped_rows(entry["rows"]), config_of(entry["rows"])
    attacks = shipped_attacks(entry["attacks"]) if "attacks" in entry else None
    context = shipped_context(config, sorted(set(rows["dataset"])))
    near, printed = runs.near_print(rows, context)
    own = io.read_yaml(config)["datasets"]
    graphs = dict.fromkeys([*context["datasets"], *entry.get("stand_ins", []), *own])
    study = shipped_study(config, list(graphs))
    yield from runs.lines_of(runs.coverage(study, rows, attacks, _costs()), entry["artefacts"])
    if printed:
        yield ""
        yield (
            f"Of {printed} cells of the accuracy experiment that have both a printed number and "
            f"models of the same graph (what reads no edge, once) {near} are "
            f"within {runs.NEAR:g} points of it."
        )


def rough() -> Iterator[str]:
    """The line of docs/coverage.md on how rough its estimates are, on graphs that are no block
    models, which are all alike."""
    rows = [shipped_rows(entry["rows"]) for entry in shipped()["papers"].values()]
    graphs = {name for part in rows for name in part["dataset"] if not name.startswith("csbm-")}
    factors = [_costs().off_by(share, graphs) for share in (0.5, 0.9)]
    yield (
        "Where models ran, an estimate from the others is off by a factor of up to "
        "{:.1f} in half of the cases and up to {:.1f} in nine of ten.".format(*factors)
    )


@cache
def _costs() -> Costs:
    """Of the models of all papers."""
    sources = {}
    for entry in shipped()["papers"].values():
        rows = with_embeddings(shipped_rows(entry["rows"]))
        sources[study := rows["study"].iloc[0]] = rows
        if "attacks" in entry:
            sources[f"{study}, attacks"] = shipped_attacks(entry["attacks"])
    return Costs(sources)


def with_embeddings(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows whose `cpu_seconds` count the noisy embeddings of DPDGC as well, which jobs of their own
    train, at what these take today. Raises `GraphDPError` for a graph that `shipped.yaml` lacks."""
    embedded = [
        is_private(level) and any(stage.name == "embed" for stage in cards()[method].stages)
        for method, level in zip(rows["method"], rows["level"], strict=True)
    ]
    graphs = rows.loc[embedded, "dataset"].str.replace(r"-phi-.*", "", regex=True)
    took = shipped()["embedding"]
    for graph in sorted({*graphs} - {*took}):
        raise GraphDPError(f"workflow/report/shipped.yaml: embedding lacks {graph}; time it")
    more = graphs.map(took).reindex(rows.index, fill_value=0.0)
    return rows.assign(cpu_seconds=rows["cpu_seconds"] + more)


def costs() -> Iterator[str]:
    """The lines of the table of docs/installation.md: what the training jobs of all rows took."""
    yield "| study | rows | models | memory of a job, MB (median, most) | CPU time |"
    yield "| --- | --- | --- | --- | --- |"
    said = shipped()
    for name in sorted({*said["rows"], *said["attacks"]}):
        rows = shipped_attacks(name) if name in said["attacks"] else shipped_rows(name)
        memory, minutes = rows["peak_rss_mb"], rows["cpu_seconds"].sum() / 60
        yield (
            f"| `{rows['study'].iloc[0]}` | `workflow/report/{name}` | {len(rows):,} "
            f"| {memory.median():,.0f}, {memory.max():,.0f} | {minutes:.0f} min |"
        )


def papers() -> Iterator[str]:
    """The lines of README.md's table of papers, by their shipped rows and attacks."""
    yield "| paper | command | so far | CPU time | memory of a job | disk | what came out |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name, entry in shipped()["papers"].items():
        rows = _trained_by(shipped_rows(entry["rows"]), entry)
        graphs = sorted(set(rows["dataset"]))
        parts, told = [with_embeddings(rows)], f"{len(rows):,} models"
        if "attacks" in entry:
            parts.append(shipped_attacks(entry["attacks"]))
            told += f" and {len(parts[1]):,} attacks"
        hours = sum(part["cpu_seconds"].sum() for part in parts) / 3600
        memory = max(part["peak_rss_mb"].max() for part in parts) / 1000
        own = io.read_yaml(f"config/papers/{name}.yaml")
        # Other graphs stand in for the paper's own.
        chosen = "" if {*graphs} & {*own["datasets"]} else f' DATASETS="{" ".join(graphs)}"'
        chosen += f' ONLY="{" ".join(entry["only"])}"' if "only" in entry else ""
        yield (
            f"| {entry['title']} | `make paper PAPER={name}{chosen}` | {told}: {_graphs(graphs)} "
            f"| {hours:.1f} h | {memory:.1f} GB | {entry['disk']} "
            f"| {page(entry['method']).came_out()} |"
        )


def _graphs(names: Iterable[str]) -> str:
    """Graphs in words, block models by their number."""
    found = sorted(set(names))
    real = [name for name in found if not name.startswith("csbm-")]
    blocks = len(found) - len(real)
    return ", ".join(real + ([f"{blocks} block models"] if blocks else []))


def expected(name: str) -> Iterator[str]:
    """The lines of a table of docs/artifact.md: what a table that a claim's command makes prints.

    That is the mean of the setting with the best validation accuracy (`select_best`), as there.
    Raises `GraphDPError` if no row is of a line.
    """
    said = shipped()
    claim = known(name, said["claims"], "claim")
    rows = shipped_rows(claim["rows"])
    yield from expected_table(
        "",
        (
            (what, entry["line"], chosen(claim, what)["test_accuracy"] * 100)
            for what, entry in claim["expected"].items()
        ),
    )
    command = with_embeddings(_trained_by(rows[_where(rows, claim["of"])], claim))
    yield ""
    yield where_it_stands(claim["table"], command, "models")
    if set(command["noise"]) - {"", noise.GENERATOR}:
        yield ""
        yield (
            "These models drew their noise from torch and numpy, before it came from a cipher: a "
            "run of today has other draws, so that its numbers agree within the tolerance alone."
        )


def _trained_by(rows: pd.DataFrame, claim: Mapping[str, Any]) -> pd.DataFrame:
    """Of the rows those that a command trains which names experiments and attacks (`only`)."""
    if "only" not in claim:
        return rows
    config = f"config/papers/{rows['study'].iloc[0]}.yaml"
    context = shipped_context(config, sorted(set(rows["dataset"])))
    trained = [name for name in claim["only"] if name in context["experiments"]]
    asked = pd.concat([experiment_rows(rows, context, name) for name in trained])
    # What edge-free methods train stands at edge level as well, with ε = 0.
    return asked[asked["epsilon"] != "0"].drop_duplicates([*IDENTITY])


def chosen(claim: Mapping[str, Any], what: str) -> pd.DataFrame:
    """The rows of a line of a claim of `shipped.yaml`: those of its best setting.

    Raises `GraphDPError` if there are none.
    """
    rows = shipped_rows(claim["rows"])
    best, _ = select_best(rows[_where(rows, claim["of"] | claim["expected"][what]["of"])])
    if best.empty:
        raise GraphDPError(f"shipped.yaml: claims: no row is of {what!r}; correct it")
    return best


def _where(rows: pd.DataFrame, of: Mapping[str, Any]) -> pd.Series:
    found = pd.Series(True, index=rows.index)
    for column, value in of.items():
        found &= rows[column].isin(value if isinstance(value, list) else [value])
    return found


def manifest() -> dict[str, Any]:
    """Of every shipped file what it is made of and by, and its SHA-256; of rows their study, number
    and the commits that trained them (commit -> models; + for one with changes)."""
    said = shipped()
    files: dict[str, Any] = {}
    for name, config in (said["rows"] | said["attacks"]).items():
        rows = pd.read_csv(FOLDER / name, usecols=["study", "git_commit"], dtype=str)
        files[name] = {
            "config": config,
            "study": rows["study"].iloc[0],
            "models": len(rows),
            "commits": rows["git_commit"].value_counts().to_dict(),
        }
    for name, entry in said["figures"].items():
        files[name] = entry | {"command": "make redraw"}
    for name, entry in said["audits"].items():
        files[name] = entry | {"claims": len(outcomes.shipped())}
    return {
        "files": {
            name: entry | {"sha256": io.sha256_file(FOLDER / name)} for name, entry in files.items()
        },
        "tables": {
            str(page): made
            for page in pages()
            if (made := [":".join(m.group(2, 3)) for m in _TABLE.finditer(_text(page))])
        },
        "numbers_without_rows": said["numbers_without_rows"],
    }


def _hash(name: str) -> str | None:
    """Of a file of `FOLDER`, None if it is not there."""
    return io.sha256_file(FOLDER / name) if (FOLDER / name).exists() else None


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def main() -> None:
    """The command of the module's docstring; run in the project's folder."""
    said = shipped(drawn=False)
    before = {name: _hash(name) for name in said["figures"]}
    for name in progress(list(said["figures"]), "redraw"):
        draw(name)
    changed = [name for name, hash in before.items() if _hash(name) != hash]
    for page in pages():
        text = _text(page)
        if (new := with_tables(text)) != text:
            io.write_text(page, new)
            changed.append(str(page))
    io.write_json(MANIFEST, manifest())
    print(f"drawn from shipped rows: {', '.join(said['figures'])}, tables of {len(pages())} pages")
    print(f"changed: {', '.join(changed) or 'nothing'}")


if __name__ == "__main__":
    without_arguments("graphdp.redraw", __doc__)
    try:
        main()
    except GraphDPError as error:
        sys.exit(f"error: {error}")
