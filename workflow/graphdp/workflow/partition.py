"""How seeds and cells are divided among jobs, so that what was finished stays where it is."""

from collections.abc import Iterable, Sequence
from typing import Any

#: Characters of a bundle's folder; logs and locks beside it have some more, and 255 are possible.
_LONGEST_NAME = 200


def seed_blocks(
    seeds: int, size: int, finished: Iterable[str] = (), known: Sequence[str] = ()
) -> list[str]:
    """The numbers 0 to `seeds` - 1 in blocks of at most `size`, as tokens "first-last".

    finished: tokens of blocks that are kept where they fit, the longest first. known: tokens of
    blocks that are kept before these.
    """
    kept = [tuple(map(int, token.split("-"))) for token in known]
    spans = {tuple(map(int, token.split("-"))) for token in finished}
    spans = {
        (first, last)
        for first, last in spans
        if first <= last < seeds and all(last < start or end < first for start, end in kept)
    }
    spans |= set(kept)
    tokens, start = [], 0
    while start < seeds:
        ends = [last for first, last in spans if first == start]
        if ends:
            end = max(ends)
        else:
            later = [first for first, _ in spans if first > start]
            end = min([start + size, seeds, *later]) - 1
        tokens.append(f"{start}-{end}")
        start = end + 1
    return tokens


def cell_bundles(cells: Sequence[Any], size: int, earlier: Sequence[str] = ()) -> dict[str, str]:
    """Cell path -> the place of its bundle, of at most `size` cells of one method and experiment.

    cells: `grid.Cell`s. earlier: places of bundles that are kept where all their cells are there.
    """
    found: dict[str, str] = {}
    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    for cell in cells:
        group = groups.setdefault((cell.dataset, cell.method, cell.experiment), {})
        group[f"{cell.level}-{cell.epsilon}"] = cell
    for (dataset, method, experiment), left in groups.items():
        wanted = []
        for place in earlier:
            names = place.split("/")
            members = names[2].split("+")
            here = (names[0], names[1], names[3]) == (dataset, method, experiment)
            if here and all(member in left for member in members):
                wanted.append([left.pop(member) for member in members])
        wanted += _parts(list(left.values()), size)
        for together in wanted:
            place = f"{dataset}/{method}/{_members(together)}/{experiment}"
            found |= {cell.path: place for cell in together}
    return found


def _members(cells: Sequence[Any]) -> str:
    return "+".join(f"{cell.level}-{cell.epsilon}" for cell in cells)


def _parts(cells: list[Any], size: int) -> list[list[Any]]:
    """Cells in order, as many together as `size` and the length of a folder's name allow."""
    parts: list[list[Any]] = []
    for cell in cells:
        fits = parts and len(parts[-1]) < size
        if fits and len(_members([*parts[-1], cell])) <= _LONGEST_NAME:
            parts[-1].append(cell)
        else:
            parts.append([cell])
    return parts
