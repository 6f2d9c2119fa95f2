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


def digest(script: Path | str, *modules: str, lazy: bool = True) -> str:
    """Hex digest of a script, of `modules` (dotted names) and of all graphdp code they import.

    `lazy=False` leaves out imports inside functions: for jobs that load a module for what it
    states (settings, plan) and never call its training code.
    """
    found: dict[str, Path] = {}
    queue = [Path(script), *(path for m in modules for path in _files(m))]
    while queue:
        path = queue.pop()
        name = str(path)
        if name not in found:
            found[name] = path
            for module in _imports(path, lazy):
                queue += _files(module)
    text = "".join(sorted(f"{Path(n).name}:{_sha256(p)}\n" for n, p in found.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
def _imports(path: Path, lazy: bool) -> tuple[str, ...]:
    """Dotted names of graphdp modules that a file imports (names may be attributes of a module)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree)) if lazy else _module_level(tree)
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(name for name in names if name.split(".")[0] == "graphdp")


def _module_level(tree: ast.Module) -> list[ast.AST]:
    found: list[ast.AST] = []
    queue: list[ast.AST] = list(tree.body)
    while queue:
        node = queue.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node)
            queue += ast.iter_child_nodes(node)
    return found


@functools.cache
def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
