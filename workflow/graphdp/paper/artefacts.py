"""All that people look at, made in one process: a study's tables and figures, and its report."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from graphdp.paper.figures import build_figure
from graphdp.paper.report import build_report
from graphdp.paper.tables import build_table, tables
from graphdp.progress import progress


def draw_all(
    rows: Mapping[str, str | None],
    context: Mapping,
    table_files: Sequence[str],
    figure_files: Sequence[str],
    report: str,
    statements: Sequence[str] = (),
    command: str = "",
) -> None:
    """Write every table (.csv, .md, .tex), every figure (.svg, .png) and the report.

    rows: `rows` and, of attacks, `attacks` (None without any): their files. context: of the study.
    table_files, figure_files: what is to be made; a file's stem names the table or figure.
    statements, command: as `build_report`.

    Raises `GraphDPError` for a name that is no table or figure.
    """
    tables_by_name, figures_by_name = _by_name(table_files), _by_name(figure_files)
    work = [*tables_by_name, *figures_by_name]
    for name in progress(work, "draw"):
        if name in tables_by_name:
            made = tables_by_name[name]
            source = rows["attacks" if name in tables() and tables()[name].of_attacks else "rows"]
            build_table(name, source, context, made[".csv"], made[".md"], made[".tex"])
        if name in figures_by_name:
            made = figures_by_name[name]
            build_figure(name, rows["rows"], context, made[".svg"], made[".png"])
    build_report(
        rows["rows"],
        context,
        {name: made[".csv"] for name, made in tables_by_name.items()},
        {name: made[".svg"] for name, made in figures_by_name.items()},
        report,
        statements,
        command,
    )


def _by_name(files: Iterable[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for file in files:
        found.setdefault(Path(file).stem, {})[Path(file).suffix] = file
    return found
