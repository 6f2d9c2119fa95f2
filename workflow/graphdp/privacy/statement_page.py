"""Privacy statements as pages of Markdown: what `Statement` says, for people."""

from collections.abc import Callable, Sequence

from graphdp.privacy.protection import protects_nodes
from graphdp.privacy.rounding import at_least, at_most
from graphdp.privacy.statement_form import Claim, Statement

_BETWEEN = "\n---\n\n"
_SETTINGS = "- Settings: "
_RELEASES = {
    "reproduction": "public seed: anybody can draw the noise again",
    "private": "secret key",
}


def _show(value: float | str | None, rounded: Callable[[float, int], str] = at_most) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else rounded(value, 4)


def _tri(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "does not apply"}[value]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def render_markdown(statement: Statement) -> str:
    """The statement as one page of Markdown for a privacy reviewer."""
    s = statement
    data, target, bound = s.data, s.target, s.guarantee.degree_bound
    undirected = {True: "undirected", False: "directed", None: "direction unknown"}[data.undirected]
    sizes = (
        f"{data.nodes} nodes ({data.train_nodes} for training), {data.directed_edges} directed "
        "edges"
    )
    hashed = "SHA-256"
    if s.release == "private":
        # Where edges alone are protected the number is public, and counted.
        announced = " announced" if protects_nodes(s.guarantee.level) else ""
        sizes, hashed = f"{data.train_nodes} training nodes{announced}", "keyed hash"
    noted = dict.fromkeys(a for e in [*s.accounting, *s.selection.entries] for a in e.assumptions)
    numbers = {text: str(number) for number, text in enumerate(noted, 1)}

    def notes(claim: Claim) -> str:
        return ", ".join(numbers[text] for text in claim.assumptions) or "–"

    lines = [
        f"# Privacy statement, release: {s.release} ({_RELEASES[s.release]}): {s.method} on "
        f"{data.name}, {s.guarantee.level} level",
        "",
        f"Calibrated for ε = {_show(target.epsilon)} at δ = {_show(target.delta)} "
        f"({target.basis}, {target.adjacency or 'no adjacency'}); noise multiplier "
        f"{_show(target.noise_multiplier, at_least)}. What that noise is worth stands under "
        "Accounting.",
        "",
        f"- Data: {data.name}, {sizes}, {undirected}, {hashed} {data.fingerprint[:16]}",
        f"{_SETTINGS}{', '.join(f'{k} {v}' for k, v in sorted(s.settings.items())) or 'none'}",
        f"- Protected unit: {s.guarantee.unit}",
        f"- Own row of a released matrix covered: {_tri(s.guarantee.own_row_covered)}",
    ]
    if bound is not None:
        depends = "depend" if bound.data_dependent else "do not depend"
        lines.append(
            f"- Degree bound: {bound.max_degree}, {bound.method}; "
            f"lists {depends} on the nodes that they name"
        )
    lines += ["", "## Accounting", ""]
    lines += _table(
        ("basis", "adjacency", "ε", "claimed ε", "δ", "status", "own row", "method", "assumptions"),
        [
            (
                e.basis,
                e.adjacency or "–",
                _show(e.epsilon),
                _show(e.claimed_epsilon),
                _show(e.delta),
                e.status or "no claim",
                _tri(e.own_row_covered),
                f"{e.method} {f'({e.library})' if e.library else ''}".strip(),
                notes(e),
            )
            for e in s.accounting
        ],
    )
    chosen = s.selection
    plural = "settings" if chosen.settings_tried > 1 else "setting"
    lines += [
        "## With the search charged for",
        "",
        f"{chosen.settings_tried} {plural}, seeds of each: {chosen.repeats}, checkpoint: "
        f"{chosen.checkpoint}.",
        "",
    ]
    if chosen.entries:
        lines += _table(
            ("how", "adjacency", "basis", "ε", "δ", "status", "assumptions"),
            [
                (
                    e.how,
                    e.adjacency or "–",
                    e.basis,
                    _show(e.epsilon),
                    _show(e.delta),
                    e.status or "no claim",
                    notes(e),
                )
                for e in chosen.entries
            ],
        )
        sources = dict.fromkeys(f"- {e.how}: {e.source}" for e in chosen.entries)
        lines += [*sources, ""]
    else:
        lines += ["Nothing to charge: no analysis gives this model an ε that a search raises.", ""]
    lines += ["## Mechanisms", ""]
    lines += _table(
        ("phase", "query", "count", "sampling rate", "sensitivity", "source", "noise std"),
        [
            (
                m.phase,
                m.query,
                str(m.count),
                _show(m.sampling_rate),
                f"{_show(m.sensitivity)} = {m.formula} ({m.norm})" if m.formula else "–",
                m.source or "–",
                _show(m.noise_std, at_least),
            )
            for m in s.mechanisms
        ],
    )
    lines += ["## What is protected", ""]
    lines += [f"- Protected: {text}" for text in s.protection.protected or ["nothing"]]
    lines += [f"- Not protected: {text}" for text in s.protection.not_protected]
    for release in s.releases:
        covered = "covered" if release.covered else "**not covered**"
        lines.append(f"- Release of {release.what}: {covered}. {release.why}")
    lines += [f"- Inference: {s.inference_privacy}", "", "## Not counted", ""]
    lines += [f"- {text}" for text in s.uncounted]
    secure = "cryptographic" if s.rng.cryptographic else "not cryptographic"
    lines += [f"- Random numbers: {s.rng.generator} ({secure}). {s.rng.note}"]
    if s.rng.drawn_epsilon is not None:
        lines.append(
            "- Distance of what is drawn from ideal noise, which no ε above counts: it "
            f"adds at most {at_most(s.rng.drawn_epsilon - target.epsilon, 2)} to ε = "
            f"{_show(target.epsilon)} and {at_most(s.rng.drawn_delta - target.delta, 2)} to δ = "
            f"{_show(target.delta)} (`graphdp.noise`, `graphdp.coins`)"
        )
    if numbers:
        lines += ["", "## Assumptions", ""]
    lines += [f"{number}. {text}" for text, number in numbers.items()]
    return "\n".join(lines) + "\n"


def render_pages(statements: Sequence[Statement]) -> str:
    """Several statements, one page of Markdown each."""
    return _BETWEEN.join(map(render_markdown, statements))


def split_pages(text: str) -> list[tuple[str, str]]:
    """The statements that `render_pages` joined: (settings, page) of each, in order."""
    found = []
    for page in text.split(_BETWEEN):
        lines = (line for line in page.splitlines() if line.startswith(_SETTINGS))
        found.append((next(lines, "").removeprefix(_SETTINGS), page))
    return found
