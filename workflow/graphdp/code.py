"""Digests of the library code that a job uses.

Snakemake re-runs a job when its script or parameters change, not when a module that the script
imports changes. Each rule therefore carries, as a parameter, the digest of its script and of every
graphdp module that the script reaches; editing a module re-runs exactly the jobs that use it.
"""

import ast
import functools
import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parent


def digest(script: Path | str, *entries: str) -> str:
    """Hex digest of a script, of `entries`, and of all graphdp code that they import.

    An entry is a module ("graphdp.degree") or one of its functions ("graphdp.methods.gap:encode").
    Of a module that is entered by a function, imports inside its functions count only where that
    function reaches them: a method's stages can so use different parts of the library.
    """
    files = reached(script, *entries)
    text = "".join(sorted(f"{path.name}:{_sha256(path)}\n" for path in files))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def reached(script: Path | str, *entries: str) -> set[Path]:
    """The files whose text `digest` reads."""
    start = {Path(script): ""}
    for entry in entries:
        module, _, function = entry.partition(":")
        *packages, own = _files(module)
        start |= dict.fromkeys(packages, "") | {own: function}
    found: set[Path] = set()
    queue = list(start)
    while queue:
        path = queue.pop()
        if path not in found:
            found.add(path)
            for module in _imports(path, start.get(path, "")):
                queue += _files(module)
    return found


def _files(module: str) -> list[Path]:
    """The file of a dotted graphdp module and the `__init__` of each sub-package above it.

    The package's own `__init__` is left out: it holds the version alone.
    """
    parts = module.split(".")[1:]
    files = []
    for end in range(1, len(parts) + 1):
        base = PACKAGE.joinpath(*parts[:end])
        for path in (base / "__init__.py", base.with_suffix(".py")):
            if path.is_file():
                files.append(path)
    return files


@functools.cache
def _imports(path: Path, function: str) -> tuple[str, ...]:
    """Dotted names of graphdp modules that a file imports (names may be attributes of a module).

    All of them, or with `function` those at module level and those that it reaches.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [tree]
    if function:
        defined = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        nodes = [n for n in tree.body if not isinstance(n, ast.FunctionDef)]
        nodes += [defined[name] for name in _called(function, defined)]
    names: list[str] = []
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(name for name in names if name.split(".")[0] == "graphdp")


def _called(function: str, defined: dict[str, ast.FunctionDef]) -> set[str]:
    """The functions of a module that one of them mentions, directly or through others."""
    found: set[str] = set()
    queue = [function]
    while queue:
        name = queue.pop()
        if name in defined and name not in found:
            found.add(name)
            queue += [n.id for n in ast.walk(defined[name]) if isinstance(n, ast.Name)]
    return found


@functools.cache
def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
