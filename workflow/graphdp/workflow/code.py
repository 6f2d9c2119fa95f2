"""Digests of the library code that a job uses: what it does, not how it is written.

Snakemake re-runs a job when its script or parameters change, not when a module that the script
imports changes. Each rule therefore carries, as a parameter, the digest of its script and of every
top-level definition of graphdp that the script reaches by name; a change in one of them re-runs
exactly the jobs that reach it. Comments, docstrings and formatting do not count.

What counts as reached errs on the side of too much: a local variable that has the name of a global
reaches the global, a class is reached whole, and a module that is used other than by its attributes
is reached with all that it defines. Not seen, and so to be given as entries:

- modules that are imported by a name made at run time (`importlib.import_module`);
- definitions that are found through a table filled elsewhere: by a call on the right-hand side of
  an assignment that nothing names, by `__init_subclass__`, by a decorator that is not graphdp's
  own, or by patching from outside.

Neither do data files (templates) count, nor docstrings that code reads, save a module's `__doc__`.
"""

import ast
import functools
import gc
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import graphdp

NAME = "graphdp"
PACKAGE = Path(graphdp.__file__).parent

#: A place in the code: a module and the names that lead on from it. () is its import alone, ALL
#: everything that it defines; a script stands with its path in place of a module.
Reference = tuple[str, tuple[str, ...]]
#: A top-level name of a module; "" for the statements that run whenever it is imported.
Unit = tuple[str, str]
ALL = ("*",)
#: By these, code gets at names of its own module that it does not spell out.
REFLECTION = {"globals", "eval", "exec"}


def digest(script: Path | str | None, *entries: str) -> str:
    """16 hex digits over a script (if any), `entries`, and all of graphdp that they reach.

    An entry is a module ("graphdp.io"), which stands for all that it defines, or one of
    its definitions ("graphdp.io:write_json"). Does not depend on where the checkout lies.
    Every file is read once in the life of the process, see `clear`. Raises as `reached` does.
    """
    return _digest(str(script or ""), entries)


def reached(script: Path | str, *entries: str) -> set[Unit]:
    """The (module, top-level name) pairs whose code `digest` reads: why a job ran again.

    The name is "" for the statements of a module that run whenever it is imported, and for the
    whole of the script, which stands with its file name. Raises `ValueError` for an entry that does
    not exist, `OSError` for a script that does not, `SyntaxError` for code that is none.
    """
    units = _closure(str(script), entries)
    return {(_label(module), name) for module, name in units if _unit((module, name))[0]}


def clear() -> None:
    """Forget all files that were read, for a process in which code is edited (or PACKAGE moved)."""
    for cached in (_digest, _modules, _module, _unit):
        cached.cache_clear()


@functools.cache
def _digest(script: str, entries: tuple[str, ...]) -> str:
    collects = gc.isenabled()
    gc.disable()  # looking for cycles in syntax trees, which have none, doubles the time
    try:
        units = _closure(script, entries)
    finally:
        if collects:
            gc.enable()
    pieces = [
        (_label(module), order, name, index, text)
        for module, name in units
        for index, (order, text) in enumerate(_unit((module, name))[0])
    ]
    # Sorted, yet statements stay in the order in which they run; how far apart says nothing.
    lines = (f"{module}:{name}:{text}\n" for module, _, name, _, text in sorted(pieces))
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def _label(module: str) -> str:
    return Path(module).name if module.endswith(".py") else module


def _closure(script: str, entries: tuple[str, ...]) -> set[Unit]:
    """All units that a script and entries reach."""
    start: list[Reference] = [(script, ())] if script else []
    for entry in entries:
        module, _, name = entry.partition(":")
        if module not in _modules():
            raise ValueError(f"no module {module} in {PACKAGE}")
        if name and name.partition(".")[0] not in _module(module).names:
            raise ValueError(f"{module} defines no {name}: correct what names it")
        start.append((module, tuple(name.split(".")) if name else ALL))
    found = _follow(start)
    queue = list(found)
    while queue:
        new = _unit(queue.pop())[1] - found
        found |= new
        queue += new
    return found


# Modules: what they define.


class _Import(NamedTuple):
    """What one alias of an import statement binds: a module, or the attribute of one."""

    bound: str
    module: str
    attribute: str  # "" if the module itself is bound; "*" for all that it defines
    loaded: str  # the module that is run; with `import a.b`, that binds a, it is a.b

    def target(self, rest: tuple[str, ...]) -> Reference:
        """Where `bound.rest` leads."""
        return (self.module, ((self.attribute, *rest) if self.attribute else rest) or ALL)


#: A statement or one alias of an import, and where it stands if it matters what ran before it.
Piece = tuple[int, ast.stmt | _Import]
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class _Module:
    """The top level of a file: for each name the statements that define it.

    `effects` are the statements that run whenever the module is imported, whatever is used of it.
    """

    def __init__(self, name: str) -> None:
        script = name.endswith(".py")
        path = Path(name) if script else _modules()[name]
        self.name = name
        self.is_package = path is None or path.name == "__init__.py"
        self.names: dict[str, list[Piece]] = {}
        self.effects: list[Piece] = []
        # Importing a module runs the packages above it and all that it imports itself.
        parts = [] if script else name.split(".")
        self.loaded = {".".join(parts[:end]) for end in range(1, len(parts))}
        body = ast.parse(path.read_bytes(), str(path)).body if path else []
        if body and _is_text(body[0]):
            self._define("__doc__", 0, body[0])
        for order, node in enumerate(body, start=1):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._bind(node)
                if getattr(node, "module", "") == "__future__" or node.names[0].name == "*":
                    self.effects.append((order, node))
            elif not _is_text(node):
                self._add(order, node, script)

    def _add(self, order: int, node: ast.stmt, script: bool) -> None:
        assigns = _is_assignment(node)
        if not script and (assigns or isinstance(node, DEFINITIONS)):
            for name in _bound(node):
                self._define(name, order if assigns else 0, node)
            # What graphdp's own decorators adorn may be registered, and found without its name.
            if any(map(self._is_own, getattr(node, "decorator_list", ()))):
                self.effects.append((order, node))
            return
        if not script and ast.unparse(node).startswith("if __name__ == '__main__':"):
            self._define("__main__", order, node)  # does not run on import
            return
        # Of a script everything runs, or is called by what runs.
        self.effects.append((order, node))
        for inner in ast.walk(node):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                self._bind(inner)
        for name in _bound(node):
            self.names.setdefault(name, [])

    def _define(self, name: str, order: int, what: ast.stmt | _Import) -> None:
        self.names.setdefault(name, []).append((order, what))

    def _bind(self, node: ast.Import | ast.ImportFrom) -> None:
        for item in _imports(node, self):
            self.loaded.add(item.loaded)
            if item.attribute != "*":
                self._define(item.bound, 0, item)

    def _is_own(self, decorator: ast.expr) -> bool:
        while isinstance(decorator, ast.Attribute | ast.Call):
            decorator = decorator.func if isinstance(decorator, ast.Call) else decorator.value
        name = getattr(decorator, "id", "")
        return name in self.names and not any(
            isinstance(what, _Import) and what.module.partition(".")[0] != NAME
            for _, what in self.names[name]
        )


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a bare constant, as docstrings are: it does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_assignment(node: ast.stmt) -> bool:
    """Whether a statement assigns to names only (and not into something that others hold)."""
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = [part for target in targets for part in ast.walk(target)]
        return not any(isinstance(part, ast.Attribute | ast.Subscript) for part in parts)
    return type(node).__name__ == "TypeAlias"  # since Python 3.12


def _bound(node: ast.stmt) -> set[str]:
    """The global names that a statement sets (and perhaps some that it does not)."""
    if isinstance(node, DEFINITIONS):
        return {node.name}
    inner = list(ast.walk(node))
    stored = {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {n.name for n in inner if isinstance(n, DEFINITIONS)}


def _imports(node: ast.Import | ast.ImportFrom, module: _Module) -> Iterator[_Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            yield _Import(bound, alias.name if alias.asname else bound, "", alias.name)
        return
    source = node.module or ""
    if node.level:
        above = module.name.split(".")
        kept = len(above) - node.level + module.is_package
        source = ".".join([*above[:kept], *filter(None, [node.module])])
    for alias in node.names:
        submodule = f"{source}.{alias.name}"
        loaded = submodule if submodule in _modules() else source
        yield _Import(alias.asname or alias.name, source, alias.name, loaded)


@functools.cache
def _modules() -> dict[str, Path | None]:
    """Dotted name -> file of every module of the package; None for a folder without `__init__`."""
    found: dict[str, Path | None] = {}
    for path in PACKAGE.rglob("*.py"):
        parts = [NAME, *path.relative_to(PACKAGE).with_suffix("").parts]
        if parts[-1] == "__init__":
            parts.pop()
        for end in range(1, len(parts)):
            found.setdefault(".".join(parts[:end]), None)
        found[".".join(parts)] = path
    return found


_module = functools.cache(_Module)


# Statements: their normalised text, and what they name.


class _Code:
    """A statement without its layout and docstrings, the names it mentions, its own imports."""

    def __init__(self, node: ast.stmt, module: _Module) -> None:
        self.chains: set[tuple[str, ...]] = set()
        self.imports: list[_Import] = []
        self._module = module
        self._text: list[str] = []
        self._write(node)
        self.sha = hashlib.sha256("\n".join(self._text).encode("utf-8", "replace")).hexdigest()

    def _write(self, node: ast.AST) -> None:
        """Append the text of a node; fields that are not set are left out, as newer Pythons do."""
        kind, write = node.__class__, self._text.append
        write(kind.__name__)
        if kind is ast.Name:
            self.chains.add((node.id,))
            write(node.id)
            return
        if kind is ast.Constant:
            write(repr(node.value))
            return
        if kind is ast.Attribute:
            names = [node.attr]
            while (node := node.value).__class__ is ast.Attribute:
                names.append(node.attr)
            if node.__class__ is ast.Name:
                chain = (node.id, *reversed(names))
                self.chains.add(chain)
                write(".".join(chain))
            else:
                write("." + ".".join(reversed(names)))
                self._write(node)
            return
        if kind is ast.Import or kind is ast.ImportFrom:
            self.imports += _imports(node, self._module)
        elif kind is ast.Global:
            self.chains |= {(name,) for name in node.names}
        for field in kind._fields:
            value = getattr(node, field, None)
            if value is None or value == []:
                continue
            write(field)
            if value.__class__ is list:
                write("[")
                for item in value:
                    if not isinstance(item, ast.AST):
                        write(repr(item))
                    elif not _is_text(item):
                        self._write(item)
                write("]")
            elif isinstance(value, ast.AST):
                if field == "annotation" or field == "returns":
                    self._read_annotation(value)
                self._write(value)
            else:
                write(repr(value))
        write("end")

    def _read_annotation(self, annotation: ast.expr) -> None:
        """Find the names in annotations that are written as text, which pydantic evaluates."""
        for node in ast.walk(annotation):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names = re.findall(r"[^\W\d][\w.]*", node.value)
                self.chains |= {tuple(name.split(".")) for name in names}


# Units: what they say, and what they reach.


@functools.cache
def _unit(unit: Unit) -> tuple[list[tuple[int, str]], set[Unit]]:
    """The (order, text or hash) of each piece of a unit; the units that they reach directly."""
    name, defined = unit
    module = _module(name)
    texts: list[tuple[int, str]] = []
    start: list[Reference] = [(name, ())]
    if not defined:
        start += [(loaded, ()) for loaded in module.loaded]
    for order, what in module.names[defined] if defined else module.effects:
        if isinstance(what, _Import):
            texts.append((order, repr(tuple(what))))
            start.append((what.loaded, ()))
            continue
        code = _Code(what, module)
        texts.append((order, code.sha))
        for item in code.imports:
            start.append((item.loaded, ()))
            if item.attribute == "*":
                start.append((item.module, ALL))
        for chain in code.chains:
            if chain[0] in module.names:
                start.append((name, chain))
            elif chain[0] in REFLECTION:
                start.append((name, ALL))
            start += [item.target(chain[1:]) for item in code.imports if item.bound == chain[0]]
    return texts, _follow(start)


def _follow(references: list[Reference]) -> set[Unit]:
    """The units that references lead to, through the imports that pass them on."""
    found: set[Unit] = set()
    seen: set[Reference] = set()
    queue = list(references)
    while queue:
        reference = queue.pop()
        module, chain = reference
        if reference in seen or not (module in _modules() or module.endswith(".py")):
            continue  # code of others
        seen.add(reference)
        found.add((module, ""))
        if chain == ALL:
            queue += _contents(module)
        elif chain:
            name, rest = chain[0], chain[1:]
            pieces = _module(module).names.get(name)
            imports = [what for _, what in pieces or () if isinstance(what, _Import)]
            submodule = f"{module}.{name}"
            if pieces is not None:
                found.add((module, name))
                queue += [item.target(rest) for item in imports]
            # What a package takes out of a submodule of the same name hides that submodule.
            hidden = any(f"{item.module}.".startswith(f"{submodule}.") for item in imports)
            if submodule in _modules() and not hidden:
                queue.append((submodule, rest or ALL))
            elif pieces is None and name not in ("__name__", "__file__", "__doc__", "__path__"):
                queue.append((module, ALL))  # made by a star import, by `__getattr__`, or by hand
    return found


def _contents(module: str) -> Iterator[Reference]:
    """All that a module defines, or takes from elsewhere to offer it; not the modules it uses."""
    for name, pieces in _module(module).names.items():
        passed_on = [
            not isinstance(what, _Import)
            or what.loaded.startswith(f"{module}.")
            or bool(what.attribute and what.loaded == what.module)
            for _, what in pieces
        ]
        if any(passed_on):
            yield module, (name,)
