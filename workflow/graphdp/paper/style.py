"""One look for all figures: colours that colour-blind readers can tell apart, fixed per method."""

import os
import textwrap
from collections.abc import Sequence
from io import BytesIO

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from graphdp import io
from graphdp.methods.registry import cards

_OTHER = ("#949494", "P")  # grey, for methods that are not here
SERIES_MARKERS = ("o", "s", "^", "p", "v", "P", "X", "*")

#: What a paper prints: an open diamond, which is no method's marker.
PRINTED = {"color": "#1c2330", "marker": "D", "markerfacecolor": "none", "linestyle": "none"}
#: A method as its authors' code runs it, and other lines whose ε is a claim that fails.
AS_IMPLEMENTED = {"linestyle": "--", "markerfacecolor": "white"}
_FILLING = 0.35  # of a colour on white

PANEL_WIDTH, PANEL_HEIGHT = 3.9, 2.9  # inches, labels included
_DPI = 160
#: Of a PNG in the repository.
_COLOURS = 256
_FOOTNOTE_LINES = 2
#: Stands for claims that do not fit: what is below a picture must not look like all of its labels.
_MORE_CLAIMS = "more on ε: caption"

_SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.title_fontsize": 8.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "axes.linewidth": 0.8,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    # Text as outlines: the same picture on a machine without the font.
    "svg.fonttype": "path",
    # Element ids from the content, so that equal input gives equal bytes.
    "svg.hashsalt": "graphdp",
}


def theme():
    """A context manager: matplotlib settings of the project's figures, restored on exit."""
    return mpl.rc_context({**sns.axes_style("whitegrid"), **_SETTINGS})


def method_style(method: str) -> tuple[str, str]:
    """(colour, marker) of a method, the same in every figure: its card's."""
    return cards()[method].look if method in cards() else _OTHER


def method_look(method: str) -> dict[str, str]:
    """How a line of a method is drawn; its authors' code is told apart by `AS_IMPLEMENTED`."""
    colour, marker = method_style(method)
    variant = method in cards() and cards()[method].as_implemented_of
    return {"color": colour, "marker": marker} | (AS_IMPLEMENTED if variant else {})


def printed_look(method: str) -> dict[str, object]:
    """`PRINTED` where several methods are printed in a panel: in the method's colour, pale inside,
    which alone would not tell orange from brown."""
    colour = method_style(method)[0]
    pale = tuple(1 - _FILLING * (1 - part) for part in mpl.colors.to_rgb(colour))
    return PRINTED | {"color": colour, "markerfacecolor": pale}


def series_colours(count: int) -> Sequence[tuple[float, float, float]]:
    """Colours for `count` ordered values, dark to light, without the palest end."""
    return sns.color_palette("viridis", count + 1)[:count]


def panels(rows: int, columns: int) -> tuple[Figure, list[list]]:
    """A figure with rows × columns axes, at most as wide as two panels, so that the text of all has
    one size where they are as wide as a page."""
    width = min(columns, 2) * PANEL_WIDTH
    figure = Figure(figsize=(width, rows * PANEL_HEIGHT + 0.9), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(row) for row in axes]


def titled_panels(titles: Sequence[str]) -> tuple[Figure, list[list], list]:
    """A figure with a panel per title, two a line; all its axes by line, and those with a title."""
    columns = 2 if len(titles) > 1 else 1
    figure, axes = panels(max(-(-len(titles) // columns), 1), columns)
    if columns == 1:  # a legend in several columns needs more than the width of a panel
        figure.set_figwidth(1.6 * PANEL_WIDTH)
    flat = [ax for line in axes for ax in line]
    for title, ax in zip(titles, flat, strict=False):
        ax.set_title(title)
    for ax in flat[len(titles) :]:
        ax.set_axis_off()
    return figure, axes, flat[: len(titles)]


def footnote(figure: Figure, said: Sequence[str], also: Sequence[str] = ()) -> int:
    """Write below all panels, in two lines at most, the first phrases that fit of what is `said`
    of ε and then of `also`; the others stand beside the figure (`beside`), which the footnote tells
    of claims. Returns the number of lines."""
    width = int(69 * figure.get_figwidth() / PANEL_WIDTH)
    phrases = [*said, *also]

    def lines(count: int) -> list[str]:
        below = phrases[:count] + [_MORE_CLAIMS] * (count < len(said))
        return textwrap.wrap("; ".join(below), width, break_on_hyphens=False)

    count = len(phrases)
    while count and len(lines(count)) > _FOOTNOTE_LINES:
        count -= 1
    if phrases:
        text = "\n".join(lines(count))
        figure.supxlabel(text, fontsize=7.5, color="0.35", x=0.01, ha="left")
    figure.set_label("; ".join(phrases[count:]))
    return len(lines(count))


def beside(figure: Figure) -> str:
    """What a caption must say of a figure that has no room for it; may be empty."""
    return figure.get_label()


#: What the label of axes begins with that show nothing; why not stands behind it.
_NOTHING = "<nothing> "


def say_nothing(ax: Axes, why: str) -> None:
    """Note of a panel that it shows nothing, and why."""
    ax.set_label(_NOTHING + why)


def why_nothing(figure: Figure) -> str:
    """Why a figure shows nothing in any of its panels, by their titles where the reasons differ; ""
    of one that shows something."""
    panels = [ax for ax in figure.axes if ax.get_label().startswith(_NOTHING) or _is_panel(ax)]
    if not all(ax.get_label().startswith(_NOTHING) for ax in panels):
        return ""
    found: dict[str, list[str]] = {}
    for ax in panels:
        found.setdefault(ax.get_label().removeprefix(_NOTHING), []).append(ax.get_title())
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{', '.join(titles)}: {why}" for why, titles in found.items())


def _is_panel(ax: Axes) -> bool:
    """Whether axes are neither room that is left over nor a scale of colours."""
    return ax.axison and ax.get_label() != "<colorbar>"


def save(figure: Figure, svg: str | os.PathLike, png: str | os.PathLike) -> None:
    """Write a figure as SVG and PNG, atomically; equal figures give equal bytes. What stands
    `beside` it is the description in both, and `why_nothing` is shown its title."""
    told = {"Description": beside(figure), "Title": why_nothing(figure)}
    told = {name: text for name, text in told.items() if text}
    with theme():
        with io.atomic_path(svg) as temporary:
            nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            figure.savefig(temporary, format="svg", metadata=nothing | told)
        with io.atomic_path(png) as temporary:
            figure.savefig(temporary, format="png", dpi=_DPI, metadata={"Software": None} | told)


def save_small(figure: Figure, png: str | os.PathLike) -> None:
    """Write a figure as PNG of `_COLOURS` colours, each within 16 of 255 of what `save` writes,
    in a third of its bytes, atomically; equal figures give equal bytes. What stands `beside` it is
    its description."""
    with theme(), BytesIO() as drawn:
        figure.savefig(drawn, format="png", dpi=_DPI)
        picture = Image.open(drawn).convert("RGB")
    # Of the ways to choose colours the one that keeps rare ones, such as those of a colour bar;
    # then moved to the mean of what they stand for.
    small = picture.quantize(
        _COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE
    )
    told = PngInfo()
    if beside(figure):
        told.add_itxt("Description", beside(figure))
    with io.atomic_path(png) as temporary:
        small.save(temporary, optimize=True, pnginfo=told)
