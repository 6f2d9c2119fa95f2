"""The methods of the project: the folders beside this file. Nothing here names one of them."""

import functools
import importlib
import importlib.util
import pkgutil
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType, ModuleType

import graphdp.methods
from graphdp.errors import GraphDPError
from graphdp.methods.card import Card, resolve
from graphdp.privacy.plan import Plan


@functools.cache
def folders() -> tuple[str, ...]:
    """The names of the methods' folders, sorted."""
    found = pkgutil.iter_modules(graphdp.methods.__path__)
    return tuple(sorted(module.name for module in found if module.ispkg))


@functools.cache
def cards() -> Mapping[str, Card]:
    """Every method's card by its id, in the order of the folders.

    Raises `GraphDPError` for a folder without cards or that fails as it is imported, and two
    methods of one id.
    """
    found: dict[str, Card] = {}
    for folder in folders():
        module = _imported(folder)
        if not hasattr(module, "CARDS"):
            raise GraphDPError(
                f"workflow/graphdp/methods/{folder} is no method: its __init__.py has no CARDS; "
                "add them as in methods/gap, or move the folder away"
            )
        for card in module.CARDS:
            if card.name in found:
                raise GraphDPError(
                    f"two methods are called {card.name!r}, one of them in "
                    f"workflow/graphdp/methods/{folder}; rename it in its __init__.py"
                )
            found[card.name] = card
    return MappingProxyType(found)


def _imported(folder: str) -> ModuleType:
    with _said_of(folder):
        return importlib.import_module(f"graphdp.methods.{folder}")


@contextmanager
def _said_of(folder: str) -> Iterator[None]:
    """What goes wrong in a method's folder, in one line with its place."""
    try:
        yield
    except GraphDPError:
        raise
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise GraphDPError(
            f"workflow/graphdp/methods/{folder}: {type(error).__name__}: {error} ({at.filename}, "
            f"line {at.lineno}); correct it, or move the folder away"
        ) from error


def card(method: str) -> Card:
    """The card of a method's id. Raises `GraphDPError` if there is no such method."""
    if method not in cards():
        raise GraphDPError(f"no method is called {method!r}; there are {', '.join(cards())}")
    return cards()[method]


def modules(name: str) -> dict[str, str]:
    """Folder -> its module called `name` ("audit", "figures"), of the folders that have one."""
    return {
        folder: f"graphdp.methods.{folder}.{name}"
        for folder in folders()
        if importlib.util.find_spec(f"graphdp.methods.{folder}.{name}")
    }


def analyses(
    method: str, level: str, settings: dict, num_train: int | None = None
) -> tuple[Plan, ...]:
    """Every analysis of what a model releases, the one that its method states first.

    That is the paper's; for what the paper lacks (public candidates, DPDGC with its groups
    counted) the corrected one; and for code whose claim nobody printed, as implemented.

    settings: the plan's settings (`Card.plan`). num_train: number of training nodes; only levels
    that protect nodes read it. Analyses "as implemented" stand only where the official code's
    arithmetic differs from the paper's.

    Raises GraphDPError for an unknown method or level, for missing or wrong settings, and for a
    folder that fails as its plan is made.
    """
    with _said_of(folder_of(method)):
        return resolve(card(method).analyses)(level, settings, num_train)


def folder_of(method: str) -> str:
    """The folder of a method's id. Raises `GraphDPError` if there is no such method."""
    return card(method).analyses.split(".")[2]


def figures_code(methods: Iterable[str]) -> list[str]:
    """What drawing finds by name: the cards and artefacts of these methods, and of no others."""
    folders = dict.fromkeys(folder_of(method) for method in methods)
    own = modules("figures")
    cards_of = dict.fromkeys(cards_code(method) for method in methods)
    return [*cards_of, *(own[folder] for folder in folders if folder in own)]


def cards_code(method: str) -> str:
    """Where the card of a method's id stands, for code digests."""
    return f"graphdp.methods.{folder_of(method)}:CARDS"
