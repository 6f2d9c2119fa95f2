"""Digests of the code that a job uses: they change with that code and with nothing else."""

import textwrap
from pathlib import Path

import pytest

from graphdp import code


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package in graphdp's shape: b imports c at module level and d inside a function."""
    root = tmp_path / "graphdp"
    (root / "sub").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "sub" / "__init__.py").write_text("")
    (root / "a.py").write_text("A = 1\n")
    (root / "b.py").write_text(
        textwrap.dedent(
            """
            from graphdp.sub import c

            def late():
                from graphdp.sub.d import D
                return D

            def caller():
                return late()

            def other():
                return c
            """
        )
    )
    (root / "sub" / "c.py").write_text("C = 1\n")
    (root / "sub" / "d.py").write_text("D = 1\n")
    (tmp_path / "script.py").write_text("import graphdp.b\n")
    monkeypatch.setattr(code, "PACKAGE", root)
    return tmp_path


def digest(package: Path, *entries: str) -> str:
    code._imports.cache_clear()
    code._sha256.cache_clear()
    return code.digest(package / "script.py", *entries)


@pytest.mark.parametrize(
    ("edited", "changes"),
    [
        ("script.py", True),
        ("graphdp/b.py", True),
        ("graphdp/sub/c.py", True),
        ("graphdp/sub/d.py", True),
        ("graphdp/sub/__init__.py", True),
        ("graphdp/a.py", False),
    ],
)
def test_digest_changes_exactly_with_the_code_in_use(package, edited, changes):
    before = digest(package)
    path = package / edited
    path.write_text(path.read_text() + "# edited\n")
    assert (digest(package) != before) is changes


def test_entered_modules_count(package):
    with_a = digest(package, "graphdp.a")
    assert with_a != digest(package)
    (package / "graphdp/a.py").write_text("A = 2\n")
    assert digest(package, "graphdp.a") != with_a


@pytest.mark.parametrize(("function", "late"), [("late", True), ("caller", True), ("other", False)])
def test_imports_inside_functions_count_where_the_entry_reaches_them(package, function, late):
    (package / "script.py").write_text("")
    before = digest(package, f"graphdp.b:{function}")
    (package / "graphdp/sub/d.py").write_text("D = 2\n")
    assert (digest(package, f"graphdp.b:{function}") != before) is late
    before = digest(package, f"graphdp.b:{function}")
    (package / "graphdp/sub/c.py").write_text("C = 2\n")
    assert digest(package, f"graphdp.b:{function}") != before


def used(script: str, *entries: str) -> set[str]:
    path = Path(__file__).parent.parent / "workflow/scripts" / f"{script}.py"
    files = code.reached(path, *entries) - {path}
    return {file.relative_to(code.PACKAGE).as_posix() for file in files}


def test_stages_use_the_code_that_they_run_and_no_other():
    fit = used("fit", "graphdp.methods.gap:fit")
    assert {"ensemble/training.py", "aggregation.py", "methods/gap.py"} <= fit
    assert not {name for name in fit if name.startswith("paper/")}
    assert "methods/gap.py" not in used("fit", "graphdp.methods.mlp:fit")
    assert "aggregation.py" not in used("encode", "graphdp.methods.gap:encode")
    assert "ensemble/training.py" not in used("aggregate", "graphdp.methods.gap:aggregate")
    calibrate = used("calibrate", "graphdp.methods.gap:plan")
    assert "privacy/calibration.py" in calibrate
    assert not {name for name in calibrate if name.startswith(("ensemble/", "aggregation"))}
    figure = used("figure")
    assert "paper/figures.py" in figure
    assert not {name for name in figure if name.startswith(("ensemble/", "methods/"))}
