"""What earlier runs of a study left in its folder, so that it is kept. No Snakemake."""

import re
from pathlib import Path

_BLOCK = re.compile(r"\d+-\d+")


def finished_blocks(folder: Path) -> dict[str, list[str]]:
    """The blocks of seeds ("0-4") that have results in a stage's folder, by the place that they are
    of: dataset/method/level/ε/experiment, or of a bundle dataset/method/members/experiment.

    Other files there, seals and what a killed process left are passed over.
    """
    alone = (path.relative_to(folder).with_suffix("") for path in folder.glob("*/**/*-*.csv"))
    alone = (path for path in alone if path.parts[0] != "bundles")
    together = (path.relative_to(folder / "bundles") for path in folder.glob("bundles/*/*/*/*/*-*"))
    found: dict[str, list[str]] = {}
    for path in (*alone, *together):
        if _BLOCK.fullmatch(path.name):
            found.setdefault(path.parent.as_posix(), []).append(path.name)
    return found


def bundled(results: Path) -> list[tuple[str, str, str]]:
    """What was made in bundles of cells: (stage, place of the bundle, "level-ε"), see `Grid`.

    results: the study's folder, with <stage>/bundles/<dataset>/<method>/<members>/<experiment>/
    <block>/<member>.
    """
    files = (file.relative_to(results) for file in results.glob("*/bundles/*/*/*/*/*/*.*"))
    return [
        (file.parts[0], "/".join(file.parts[2:6]), file.stem)
        for file in files
        if not file.name.startswith(".") and _BLOCK.fullmatch(file.parts[6])
    ]
