"""The card of a method: all that the rest of the project knows of it before it is run.

A method is a folder of `graphdp.methods`; its `__init__` holds one card per id that stands in rows
(a method, and perhaps the same as its authors' code runs it) and imports no torch:

    __init__.py    the card: title, levels with their settings, stages, look
    plan.py        what it releases at each level, and all analyses of that
    method.py      the algorithm, to be read from top to bottom
    audit.py       claims about its ε, each with an attack on its own code (optional)
    figures.py     tables and figures that are its own (optional)
    page.py        its page in docs/, from shipped rows (optional)

Functions are named by "module:function" and imported where they are run: a job so loads, and its
code digest so counts, what it uses and nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from graphdp.errors import GraphDPError
from graphdp.methods.settings import Settings
from graphdp.privacy.protection import Words, level_kind

#: Results of a stage as named arrays: float or integer, one `.npz`.
ARRAYS = ("graphdp.methods.stores:save_arrays", "graphdp.methods.stores:load_arrays", "npz")
#: Keys of what a stage put into the cache of aggregates.
RELEASES = ("graphdp.methods.stores:save_releases", "graphdp.methods.stores:load_releases", "json")
#: Graphs that a stage perturbed.
GRAPHS = ("graphdp.methods.stores:save_graphs", "graphdp.methods.stores:load_graphs", "npz")
#: Edges that a degree bound keeps.
MASKS = ("graphdp.methods.stores:save_masks", "graphdp.methods.stores:load_masks", "npz")
#: Rows of trained models: what the last stage of every method leaves.
ROWS = ("graphdp.workflow.model_rows:write_rows", "", "csv")

#: What a stage may read besides the results of others: the cache of aggregates.
CACHE = "cache"
OPEN_CACHE = "graphdp.methods.stores:open_cache"


@dataclass(frozen=True)
class Stage:
    """One step of a method, for a block of seeds and all settings of a cell.

    name: "encode", ..., and last "fit". It names the stage's folder under `results/<study>/`.
    run: "module:function". It is called as `run(block, settings, *read)`: a `Block`, the distinct
        values of `settings`, and what the stages of `reads` made, in that order.
    settings: (level, setting) -> what of a setting determines the result; None if the setting has
        no such stage.
    reads: names of earlier stages, or `CACHE`.
    store: "module:function" to save and to load the result, and the suffix of its file.
    levels: the kinds of levels ("none", "edge", "k", "node") that have it; all if not given. At the
        others whoever reads it is given nothing ({} or []).
    place: (dataset, method, level, epsilon, experiment, part=part of the settings) -> where the
        result is kept, if not in a place of the cell's own. Cells with one place share the result.
    calibrated: level -> whether it draws noise that the plan holds, and so reads the calibration.
    trains: whether it has the resources of training jobs (threads, a GPU).
    of_graph: whether graph, settings and study seed alone determine it: not split or checkpoint.
    """

    name: str
    run: str
    settings: Callable[[str, dict[str, Any]], dict[str, Any] | None]
    reads: tuple[str, ...] = ()
    store: tuple[str, str, str] = ARRAYS
    levels: tuple[str, ...] = ("none", "edge", "k", "node")
    place: Callable[..., str] | None = None
    calibrated: Callable[[str], bool] = lambda level: True
    trains: bool = True
    of_graph: bool = False

    def at(self, level: str) -> bool:
        """Whether a level has this stage."""
        return level_kind(level) in self.levels


def whole(level: str, setting: dict[str, Any]) -> dict[str, Any]:
    """For stages that everything in a setting determines."""
    return setting


@dataclass(frozen=True)
class Card:
    """What is known of a method without running it.

    name: its id in rows, streams, files and configurations. title: the papers' name.
    levels: kind of level ("none", "edge", "k" for all "k<number>", "node") -> its hyperparameters.
    plan: (level, setting) -> the part of the hyperparameters that its plan reads.
    analyses: "module:function"; (level, settings of the plan, number of training nodes) -> every
        analysis of what it releases, the one that the method states first.
    stages: in order; the last is "fit".
    look: (colour as "#rrggbb", marker of matplotlib) in every figure; of authors' code in its
        method's colour, and drawn hollow and dashed (`style.method_look`).
    reads_edges: if not, what it trains without privacy has ε = 0 at edge level.
    last_epoch: levels at which the last epoch is kept whatever the study says, because looking at
        validation accuracies in between would be releases that the plan does not hold.
    weights_alone: (level, setting) -> whether predictions read neighbours without noise, so that
        the ε speaks of the weights and not of them.
    level_titles: level -> its title there, where that is not `title` with the level's suffix.
    as_implemented_of: the id of the method of which this is the authors' code, if it is that.
    unnamed: hyperparameters that a row names only where they are not the published ones -> these.
    tried: hyperparameters of which `graphdp calibrate`, where one is not given, tries all of these
        values and reports the one that needs the least noise.
    examples: options of `graphdp calibrate` that answer a question, for its help.
    words: for its privacy statement.
    """

    name: str
    title: str
    levels: Mapping[str, type[Settings]]
    plan: Callable[[str, dict[str, Any]], dict[str, Any]]
    analyses: str
    stages: tuple[Stage, ...]
    look: tuple[str, str]
    reads_edges: bool = True
    last_epoch: tuple[str, ...] = ()
    weights_alone: Callable[[str, Mapping[str, Any]], bool] = lambda level, setting: False
    level_titles: Mapping[str, str] = field(default_factory=dict)
    as_implemented_of: str = ""
    unnamed: Mapping[str, Any] = field(default_factory=dict)
    tried: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    examples: tuple[str, ...] = ()
    words: Words = field(default_factory=Words)

    def __post_init__(self):
        # Else a statement would say of a participant what is true where no edge is read.
        if self.reads_edges and not self.words.edges and {"node", "k"} & self.levels.keys():
            raise GraphDPError(
                f"{self.name} protects nodes and reads edges: say in its card which of a node's "
                'edges its ε is of, as words=Words(edges="Out-edges of a node."), or '
                "reads_edges=False"
            )

    def settings(self, level: str) -> type[Settings]:
        """The type of its hyperparameters at a level."""
        return self.levels[level_kind(level)]

    def stage(self, name: str) -> Stage:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)

    def checkpoint(self, level: str, asked: str) -> str:
        """The epoch that is kept at a level: the study's `asked`, or "last" by necessity."""
        return "last" if level in self.last_epoch else asked

    def plan_code(self) -> str:
        """ "module:function" of `plan`, for code digests."""
        return f"{self.plan.__module__}:{self.plan.__name__}"


def resolve(name: str) -> Any:
    """What "module:attribute" names, imported now."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
