"""The one door through which methods are run: by jobs, stage by stage, or all at once in memory.

What a stage reads and leaves is data of its method's card (`graphdp.methods.card`); here it is
loaded, called and saved.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphdp import seals
from graphdp.errors import GraphDPError, LostRelease
from graphdp.methods.card import CACHE, RELEASES, Card, resolve

if TYPE_CHECKING:  # every start of Snakemake reads this module
    from graphdp.methods.block import Block

#: Gives a block its calibrations; found by name, as only jobs with noise use it.
CALIBRATE = "graphdp.workflow.calibrations:of_block"
#: Writes a private release into the ledger; found by name likewise.
RESERVE = "graphdp.workflow.publish:reserve"
#: The code that a calibration depends on besides its plans, ε and δ.
ACCOUNTING = ("graphdp.privacy.calibration:calibrate", "graphdp.privacy.composition:epsilon_at")


def calibrated(block: "Block", study: Mapping[str, Any]) -> "Block":
    """A block with the calibrations that it reads; study: as `calibrations.of_block` takes it.

    A private release then stands in the ledger; raises `GraphDPError` as `publish.reserve`.
    """
    found = replace(block, calibrations=resolve(CALIBRATE)(block, study))
    if block.release == "private":
        resolve(RESERVE)(found, study)
    return found


def run_stage(task: Mapping[str, Any], block: "Block", cache: str) -> None:
    """Run one stage and save its result.

    task: `run`, `save` and, as `reads`, what is read -> how it is loaded, all as "module:function"
    (`Grid.task` makes it from a card); `settings`, the parts of the settings; `files`, what is
    read -> its files; and `output`, the file to write. cache: the folder of the cache of
    aggregates.
    """
    read = [
        resolve(load)(cache if name == CACHE else task["files"][name], block)
        for name, load in task["reads"].items()
    ]
    try:
        result = resolve(task["run"])(block, task["settings"], *read)
    except LostRelease as error:
        records = [
            Path(file) for name, load in task["reads"].items() if load == RELEASES[1]
            for file in task["files"][name]
        ]  # fmt: skip
        if not records:
            raise
        # A member of a bundle is made with the others: what is whole or absent is the bundle.
        made = {path if seals.seal_of(path).is_file() else path.parent for path in records}
        names = ", ".join(sorted(map(str, made)))
        raise GraphDPError(f"{error}: delete {names} as well") from None
    resolve(task["save"])(task["output"], result, block)


def run_all(
    block: "Block", card: Card, setting: dict[str, Any], cache: Any
) -> list[tuple[int, dict[str, Any], Any]]:
    """All stages of a method one after the other, for one setting and the block's seeds.

    cache: an `AggregateCache`. Returns what "fit" does: (seed, setting, fitted model) triples.
    """
    made: dict[str, Any] = {CACHE: cache}
    for stage in card.stages:
        part = stage.settings(block.level, setting) if stage.at(block.level) else None
        read = [made[name] for name in stage.reads]
        made[stage.name] = {} if part is None else resolve(stage.run)(block, [part], *read)
    return list(made["fit"])
