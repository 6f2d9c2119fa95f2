"""Digests of the code that a job uses: they change with what that code does and nothing else."""

import ast
import contextlib
import shutil
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from graphdp.config import validate
from graphdp.data.csbm import csbm
from graphdp.methods import registry
from graphdp.workflow import code
from graphdp.workflow.calibrations import calibrate_cell
from graphdp.workflow.grid import Grid

SCRIPTS = Path(__file__).parent.parent / "workflow/scripts"

# A package in graphdp's shape. What the script reaches of it: `a.used` and all that leads on to,
# `b.value` by attribute, `train` that `sub` re-exports.
FILES = {
    "script.py": """
        from graphdp import b as module
        from graphdp.a import used
        from graphdp.sub import train

        def main(snakemake):
            return used(), module.value, train()

        main(snakemake)
        """,
    "graphdp/__init__.py": "",
    "graphdp/a.py": '''
        """What a holds."""

        import math
        import os as system

        LIMIT, OTHER_LIMIT = 10, 20
        UNUSED = 1

        def decorator(function):
            return function

        def default():
            return 1

        @decorator
        def used(x=default()):
            """Add."""
            # a comment
            helper = Shape().area
            return inner() + x + helper()

        def inner():
            from graphdp.late import late
            return LIMIT + late(system.sep)

        class Base:
            scale = 2

        class Shape(Base):
            def area(self):
                return 3

        def unused():
            return math.pi
        ''',
    "graphdp/b.py": """
        def __getattr__(name):
            return name

        value = 1
        other = 2
        """,
    "graphdp/late.py": """
        from graphdp import a

        def late(x):
            return a.default()

        def unused():
            return 0
        """,
    "graphdp/sub/__init__.py": "from .c import train, unused",
    "graphdp/sub/c.py": """
        from . import d
        from .. import loaded

        def train():
            return d.rate()

        def unused():
            return loaded.unused()
        """,
    "graphdp/sub/d.py": """
        from ..sub.e import RATE as PACE

        def rate():
            return PACE
        """,
    "graphdp/sub/e.py": "RATE = 1\nOTHER = 2\n",
    "graphdp/loaded.py": "def unused(): return 1",
    "graphdp/alone.py": "def f(): return g()\ndef g(): return 1\ndef h(): return 2\n",
}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    code.clear()
    monkeypatch.setattr(code, "PACKAGE", tmp_path / "checkout/graphdp")
    yield tmp_path / "checkout"
    code.clear()


def digest(checkout: Path, *entries: str) -> str:
    code.clear()
    return code.digest(checkout / "script.py", *entries)


def edit(checkout: Path, name: str, old: str, new: str) -> None:
    text = (checkout / name).read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
    (checkout / name).write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param("graphdp/a.py", "# a comment", "# another", id="comment"),
        pytest.param("graphdp/a.py", "Add.", "Adds.", id="docstring of a function"),
        pytest.param("graphdp/a.py", '    """Add."""\n', "", id="docstring removed"),
        pytest.param("graphdp/a.py", "What a holds", "Another", id="docstring of a module"),
        pytest.param("graphdp/a.py", "scale = 2", '"Doc."\n    scale = 2', id="and of a class"),
        pytest.param("graphdp/a.py", "x=default()", "x = (\n default( )\n)", id="formatting"),
        pytest.param("graphdp/a.py", "math.pi", "math.e", id="unused function"),
        pytest.param("graphdp/a.py", "import math", "import cmath as math", id="unused import"),
        pytest.param("graphdp/a.py", "UNUSED = 1", "UNUSED = 2", id="unused constant"),
        pytest.param("graphdp/a.py", "UNUSED = 1\n", "", id="unused constant removed"),
        pytest.param("graphdp/b.py", "other = 2", "other = 3", id="other attribute"),
        pytest.param("graphdp/late.py", "return 0", "return 1", id="unused, of a late import"),
        pytest.param("graphdp/sub/e.py", "OTHER = 2", "OTHER = 3", id="unused, of a re-export"),
        pytest.param("graphdp/loaded.py", "return 1", "return 2", id="imported and not used"),
        pytest.param("graphdp/alone.py", "return 1", "return 3", id="module that nobody imports"),
        pytest.param("script.py", "main(snakemake)\n", "main(snakemake)  # run\n", id="script"),
    ],
)
def test_what_does_nothing_to_a_job_leaves_its_digest(checkout, name, old, new):
    before = digest(checkout)
    if name == "script.py":
        old = "\n" + old
        new = "\n\n" + new
    edit(checkout, name, old, new)
    assert digest(checkout) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        pytest.param("script.py", "module.value, train", "train", id="script"),
        pytest.param("script.py", "import b as", "import late as", id="another module"),
        pytest.param("graphdp/a.py", "+ x +", "- x +", id="used function"),
        pytest.param("graphdp/a.py", "LIMIT + late", "LIMIT - late", id="function used by it"),
        pytest.param("graphdp/a.py", "10, 20", "11, 20", id="used constant"),
        pytest.param("graphdp/a.py", "return 3", "return 4", id="method"),
        pytest.param("graphdp/a.py", "scale = 2", "scale = 3", id="base class"),
        pytest.param("graphdp/a.py", "return function", "return print", id="decorator"),
        pytest.param("graphdp/a.py", "return 1\n\n@", "return 2\n\n@", id="default argument"),
        pytest.param("graphdp/a.py", "import os as", "import sys as", id="import of another"),
        pytest.param("graphdp/b.py", "value = 1", "value = 2", id="attribute of a module"),
        pytest.param(
            "graphdp/b.py", "value = 1", "value = 1\nvalue += 1", id="and what adds to it"
        ),
        pytest.param("graphdp/late.py", "a.default()", "x", id="late import"),
        pytest.param("graphdp/sub/c.py", "d.rate()", "d.rate() + 1", id="re-export"),
        pytest.param("graphdp/sub/c.py", "from . import d", "from . import e as d", id="relative"),
        pytest.param("graphdp/sub/d.py", "return PACE", "return 2", id="behind a re-export"),
        pytest.param("graphdp/sub/e.py", "RATE = 1", "RATE = 2", id="import alias"),
        pytest.param("graphdp/__init__.py", "", "print(1)", id="effect of the package"),
        pytest.param("graphdp/sub/__init__.py", "from", "print(1)\nfrom", id="of a sub-package"),
        pytest.param("graphdp/loaded.py", "def", "print(1)\ndef", id="effect, imported only"),
        pytest.param("graphdp/a.py", "UNUSED = 1", "LIMIT.x = 1", id="assignment into something"),
        pytest.param("graphdp/a.py", "UNUSED = 1", "for i in 1, 2: print(i)", id="loop"),
        pytest.param("graphdp/a.py", "def unused", "@decorator\ndef unused", id="registered"),
    ],
)
def test_a_change_in_what_a_job_reaches_changes_its_digest(checkout, name, old, new):
    before = digest(checkout)
    edit(checkout, name, old, new)
    assert digest(checkout) != before


@pytest.mark.parametrize(
    "use",
    [
        "getattr(module, name)",
        "module.__dict__[name]",
        "call(module)",
        "module.missing",
    ],
)
def test_a_module_used_other_than_by_its_attributes_counts_whole(checkout, use):
    edit(checkout, "script.py", "module.value", use)
    before = digest(checkout)
    edit(checkout, "graphdp/b.py", "other = 2", "other = 3")
    assert digest(checkout) != before


@pytest.mark.parametrize("text", ["from graphdp.b import *", "def f(): globals()['other']\nf()"])
def test_a_module_whose_names_are_not_spelled_out_counts_whole(checkout, text):
    (checkout / "graphdp/a.py").write_text(
        f"{text}\nfrom graphdp.b import other\ndef used(): f()\n"
    )
    before = digest(checkout)
    edit(checkout, "graphdp/b.py", "other = 2", "other = 3")
    assert digest(checkout) != before


@pytest.mark.parametrize(
    "text",
    [
        "if True:\n    def used(): return 1\nelse:\n    def used(): return LIMIT",
        "try:\n    from graphdp.b import value as used\nexcept ImportError:\n    used = 1",
        "with open(name) as file:\n    used = [line for line in file]",
    ],
)
def test_conditional_definitions_count_always(checkout, text):
    (checkout / "graphdp/a.py").write_text(f"LIMIT = 1\nUNUSED = 1\ndefault = 1\n{text}\n")
    before = digest(checkout, "graphdp.late:late")
    edit(checkout, "graphdp/a.py", "UNUSED = 1", "UNUSED = 2")
    assert digest(checkout, "graphdp.late:late") == before
    (checkout / "graphdp/a.py").write_text(
        (checkout / "graphdp/a.py").read_text().replace(text, text.replace("used", "used2"))
    )
    assert digest(checkout, "graphdp.late:late") != before


def test_a_module_that_imports_either_of_two_reaches_both(checkout):
    either = "try:\n    from graphdp.b import value\nexcept ImportError:\n    from .alone import f"
    (checkout / "graphdp/a.py").write_text(f"{either} as value\ndef used(): return value\n")
    for name, old in ("b", "value = 1"), ("alone", "return 1"):
        before = digest(checkout)
        edit(checkout, f"graphdp/{name}.py", old, f"{old} + 1")
        assert digest(checkout) != before


def test_names_in_annotations_count_as_text_too(checkout):
    edit(checkout, "graphdp/a.py", "scale = 2", "scale: 'list[Field]' = 2")
    edit(checkout, "graphdp/a.py", "def unused", "class Field:\n    size = 1\n\ndef unused")
    before = digest(checkout)
    edit(checkout, "graphdp/a.py", "size = 1", "size: int = 2")
    assert digest(checkout) != before


def test_statements_count_in_the_order_in_which_they_run(checkout):
    path = checkout / "graphdp/b.py"
    path.write_text("value = []\nvalue.append(1)\nother = len(value)\n")
    edit(checkout, "script.py", "module.value", "module.value, module.other")
    before = digest(checkout)
    path.write_text("value = []\nother = len(value)\nvalue.append(1)\n")
    assert digest(checkout) != before


def test_functions_count_in_any_order(checkout):
    path = checkout / "graphdp/alone.py"
    before = digest(checkout, "graphdp.alone")
    path.write_text("\n\n".join(reversed(path.read_text().splitlines())))
    assert digest(checkout, "graphdp.alone") == before


def test_what_runs_only_as_a_program_counts_only_for_whole_modules(checkout):
    path = checkout / "graphdp/alone.py"
    path.write_text(path.read_text() + "if __name__ == '__main__':\n    h()\n")
    function, whole = (digest(checkout, name) for name in ("graphdp.alone:f", "graphdp.alone"))
    edit(checkout, "graphdp/alone.py", "    h()", "    h(1)")
    assert digest(checkout, "graphdp.alone:f") == function
    assert digest(checkout, "graphdp.alone") != whole


def test_what_a_script_runs_as_a_program_counts(checkout):
    edit(checkout, "script.py", "\nmain(snakemake)", "\nif __name__ == '__main__':\n    main(1)")
    before = digest(checkout)
    edit(checkout, "script.py", "main(1)", "main(2)")
    assert digest(checkout) != before


def test_of_two_definitions_of_a_name_the_last_one_counts(checkout):
    first, second = "def used(): return 1\n", "def used(): return 2\n"
    (checkout / "graphdp/a.py").write_text(f"{first}{second}def default(): return 1\n")
    before = digest(checkout)
    (checkout / "graphdp/a.py").write_text(f"{second}{first}def default(): return 1\n")
    assert digest(checkout) != before


def test_the_docstring_of_a_module_counts_where_code_reads_it(checkout):
    edit(checkout, "graphdp/a.py", "return 3", "return __doc__")
    before = digest(checkout)
    edit(checkout, "graphdp/a.py", "What a holds", "Another")
    assert digest(checkout) != before


def test_new_modules_leave_all_digests(checkout):
    before = digest(checkout), digest(checkout, "graphdp.alone"), digest(checkout, "graphdp.sub")
    for name in ("graphdp/new.py", "graphdp/sub/new.py", "graphdp/folder/__init__.py"):
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text("from graphdp import a\nprint(a)\n")
    after = digest(checkout), digest(checkout, "graphdp.alone"), digest(checkout, "graphdp.sub")
    assert after == before


def test_digests_do_not_depend_on_where_the_checkout_lies(checkout, tmp_path, monkeypatch):
    before = digest(checkout, "graphdp.alone")
    moved = shutil.copytree(checkout, tmp_path / "elsewhere/renamed")
    monkeypatch.setattr(code, "PACKAGE", moved / "graphdp")
    assert digest(moved, "graphdp.alone") == before
    monkeypatch.chdir(moved)
    code.clear()
    assert code.digest("script.py", "graphdp.alone") == before


def test_entries_count_whole_or_by_one_definition(checkout):
    found = code.reached(checkout / "script.py", "graphdp.alone:f")
    assert {name for module, name in found if module == "graphdp.alone"} == {"f", "g"}
    found = code.reached(checkout / "script.py", "graphdp.alone")
    assert {name for module, name in found if module == "graphdp.alone"} == {"f", "g", "h"}
    # What a whole package offers is what its `__init__` takes from elsewhere.
    found = code.reached(checkout / "script.py", "graphdp.sub")
    assert {("graphdp.sub.c", "unused"), ("graphdp.loaded", "unused")} <= found
    with pytest.raises(ValueError, match=r"no module graphdp\.nothing"):
        code.digest(checkout / "script.py", "graphdp.nothing:f")
    # A misspelled one would be code that no edit of it runs again.
    with pytest.raises(ValueError, match=r"graphdp\.alone defines no ff"):
        code.digest(checkout / "script.py", "graphdp.alone:ff")


def test_a_function_hides_the_submodule_that_it_comes_from(checkout):
    (checkout / "graphdp/sub/train.py").write_text("def train(): return d()\ndef d(): return 1\n")
    (checkout / "graphdp/sub/__init__.py").write_text("from graphdp.sub.train import train\n")
    found = code.reached(checkout / "script.py")
    assert ("graphdp.sub.train", "d") in found
    (checkout / "graphdp/sub/__init__.py").write_text("")
    code.clear()
    found = code.reached(checkout / "script.py")
    assert {("graphdp.sub.train", "train"), ("graphdp.sub.train", "d")} <= found


def test_imports_in_a_circle_come_to_an_end(checkout):
    (checkout / "graphdp/a.py").write_text("from graphdp.b import used\n")
    (checkout / "graphdp/b.py").write_text("from graphdp.a import used\nvalue = 1\n")
    assert ("graphdp.b", "used") in code.reached(checkout / "script.py", "graphdp.a", "graphdp.b")


# The library itself.


def used(script: str, *entries: str) -> set[str]:
    return {module for module, name in code.reached(SCRIPTS / f"{script}.py", *entries) if name}


@pytest.mark.parametrize("script", sorted(path.stem for path in SCRIPTS.glob("*.py")))
def test_every_script_has_a_digest(script):
    assert len(code.digest(SCRIPTS / f"{script}.py")) == 16


def test_stages_use_the_code_that_they_run_and_no_other():
    fit = used("stage", "graphdp.methods.mlp.method:fit")
    assert {"graphdp.training.fit", "graphdp.methods.train_runs"} <= fit
    assert not {name for name in fit if name.startswith(("graphdp.paper", "graphdp.audit"))}
    others = {f"graphdp.methods.{folder}" for folder in registry.folders()} - {
        "graphdp.methods.mlp"
    }
    assert not {name for name in fit if any(name.startswith(other) for other in others)}
    calibrate = used("calibrate", "graphdp.methods.mlp.plan:analyses")
    assert "graphdp.privacy.calibration" in calibrate
    assert not {name for name in calibrate if name.startswith("graphdp.training")}
    draw = used("draw")
    assert "graphdp.paper.figures" in draw
    assert not {name for name in draw if name.startswith("graphdp.training")}


def test_what_parties_run_as_processes_belongs_to_the_stage_that_starts_them():
    """They add up the sums and draw their noise: with another of these it is another result."""
    reached = code.reached(SCRIPTS / "stage.py", "graphdp.methods.dpa.method:fit")
    for module, names in {
        "party": ("work", "_own_pairs", "_keys", "whole", "main"),
        "shuffler": ("work", "_order", "_forward", "_check_users", "main"),
        "process": ("run", "_told"),
        "shares": ("mask", "sum_by_key", "noise_name"),
        "fixed_point": ("party_noise", "dummies"),
    }.items():
        assert {(f"graphdp.parties.{module}", name) for name in names} <= reached, module


def unit_of(module: str, line: int) -> str:
    """The name that is defined by the top-level statement of a module that holds a line."""
    for node in ast.parse(code._modules()[module].read_bytes()).body:
        decorators = getattr(node, "decorator_list", [])
        if min(n.lineno for n in (node, *decorators)) <= line <= node.end_lineno:
            target = getattr(node, "targets", [getattr(node, "target", node)])[0]
            return getattr(target, "name", getattr(target, "id", ""))
    raise AssertionError(f"{module} has no statement in line {line}")


@contextlib.contextmanager
def executed():
    """Collects the units of graphdp whose functions run, other than while modules are imported."""
    modules = {str(path): name for name, path in code._modules().items()}
    frames, importing = set(), []

    def watch(frame, event, _):
        if frame.f_code.co_name == "<module>" and event in ("call", "return"):
            importing.append(frame) if event == "call" else importing.pop()
        elif event == "call" and not importing and frame.f_code.co_filename in modules:
            frames.add((modules[frame.f_code.co_filename], frame.f_code.co_firstlineno))

    units: set[tuple[str, str]] = set()
    sys.setprofile(watch)
    try:
        yield units
    finally:
        sys.setprofile(None)
        units |= {(module, unit_of(module, line)) for module, line in frames}


SETTINGS = {"epochs": 3, "batch_size": 16, "max_grad_norm": 1.0}
CONFIG = Path(__file__).parent.parent / "config/config.yaml"
# What the library finds by names made at run time.
FOUND = [f"graphdp.methods.{folder}" for folder in registry.folders()]


@pytest.mark.parametrize(
    ("entries", "call", "at_least"),
    [
        pytest.param(
            [
                "graphdp.workflow.calibrations:calibrate_cell",
                "graphdp.methods.mlp.plan:analyses",
                *FOUND,
            ],
            lambda: calibrate_cell("demo", "mlp", "node", "2", [SETTINGS], [100], 300, "auto"),
            20,
            id="calibrate",
        ),
        pytest.param(
            ["graphdp.data.csbm:csbm"], lambda: csbm(50, 4, 3.0, 1.0, 0.5, 0), 5, id="generate"
        ),
        pytest.param(
            ["graphdp.config:validate", *FOUND],
            lambda: validate(yaml.safe_load(CONFIG.read_text())),
            5,
            id="configure",
        ),
    ],
)
def test_everything_that_runs_is_reached(tmp_path, entries, call, at_least):
    with executed() as units:
        call()
    assert len(units) >= at_least
    (tmp_path / "script.py").write_text("")
    assert units - code.reached(tmp_path / "script.py", *entries) == set()


@pytest.mark.parametrize("method", ["gap", "progap", "sage", "mlp"])
def test_an_attack_runs_again_with_the_code_that_its_noise_is_of(method):
    folder = f"graphdp.methods.{method}"
    found = used("attack", *Grid.attack_code(SimpleNamespace(method=method)))
    assert {f"{folder}.plan", f"{folder}.method", "graphdp.workflow.calibrations"} <= found
    assert {"graphdp.privacy.calibration", "graphdp.attacks.membership"} <= found
