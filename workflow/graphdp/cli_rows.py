"""`graphdp rows`: the rows of all models that are finished, of a run or of several, in one file."""

import argparse
from pathlib import Path

from graphdp.errors import GraphDPError


def add_options(command: argparse.ArgumentParser) -> None:
    """The grammar of `graphdp rows`."""
    command.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        help="the results of a study, such as results/gap, or a file of rows, plain or gzipped",
    )
    command.add_argument(
        "--output", required=True, metavar="FILE", help="the file to make: .csv or .csv.gz"
    )


def answer(arguments: argparse.Namespace) -> str:
    """Write the file, and say what is in it.

    Each result is checked against its seal, so that what a killed run left is not taken. Raises
    GraphDPError, with nothing written, if the file is there, a result is not whole, a model stands
    in two sources, studies differ, or a row is of a private release.
    """
    from graphdp.paper.rows import collect, write_rows

    output = Path(arguments.output)
    if not output.name.endswith((".csv", ".csv.gz")):
        raise GraphDPError(f"--output {output}: give a name that ends in .csv or .csv.gz")
    if output.exists():
        raise GraphDPError(f"{output} is there already; give another name, or delete it")
    files = [file for source in arguments.sources for file in _files(Path(source))]
    rows = collect(files)
    if (rows["release"] == "private").any():
        raise GraphDPError("a private release publishes its own row alone, in results/")
    studies = sorted(set(rows["study"]))
    if len(studies) > 1:
        raise GraphDPError(f"rows of {', '.join(studies)}: give those of one study")
    try:
        write_rows(rows, output)
    except OSError as error:
        raise GraphDPError(f"{output} cannot be written: {error.strerror}") from None
    cells = rows.drop_duplicates(["dataset", "method", "level", "epsilon"])
    return (
        f"{output}: {len(rows):,} models of study {studies[0]}, in {len(cells):,} cells (dataset, "
        f"method, level, ε) of {len(files):,} files"
    )


def _files(source: Path) -> list[Path]:
    """The files of a source, checked; those of a folder are what its jobs finished."""
    from graphdp import seals

    if source.is_file():
        seals.check_if_sealed(source)
        return [source]
    found = sorted(file for file in source.glob("fit/**/*.csv") if not file.name.startswith("."))
    if not found:
        raise GraphDPError(
            f"{source}: no model is finished there; give the results of a study, such as "
            "results/gap, or a file of rows"
        )
    for file in found:
        if not seals.check_if_sealed(file):
            raise GraphDPError(f"{file} was not finished (it has no seal); delete it and run again")
    return found
