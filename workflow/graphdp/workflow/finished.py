"""What earlier runs of a study left in its folder, so that it is kept. No Snakemake."""

from pathlib import Path


def finished_blocks(folder: Path) -> list[str]:
    """The blocks of seeds ("0-4") that have results in a stage's folder."""
    alone = [
        path.stem
        for path in folder.glob("*/**/*-*.csv")
        if path.relative_to(folder).parts[0] != "bundles" and not path.name.startswith(".")
    ]
    together = (path.name for path in folder.glob("bundles/*/*/*/*/*-*"))
    # Hidden are seals, and what a killed process left.
    return alone + [name for name in together if not name.startswith(".")]


def bundled(results: Path) -> list[tuple[str, str, str]]:
    """What was made in bundles of cells: (stage, place of the bundle, "level-ε"), see `Grid`.

    results: the study's folder, with <stage>/bundles/<dataset>/<method>/<members>/<experiment>/
    <block>/<member>.
    """
    files = (file.relative_to(results) for file in results.glob("*/bundles/*/*/*/*/*/*.*"))
    return [
        (file.parts[0], "/".join(file.parts[2:6]), file.stem)
        for file in files
        if not file.name.startswith(".")
    ]
