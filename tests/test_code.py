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
            """
        )
    )
    (root / "sub" / "c.py").write_text("C = 1\n")
    (root / "sub" / "d.py").write_text("D = 1\n")
    (tmp_path / "script.py").write_text("import graphdp.b\n")
    monkeypatch.setattr(code, "PACKAGE", root)
    return tmp_path


def digest(package: Path, lazy: bool = True, *modules: str) -> str:
    code._imports.cache_clear()
    code._sha256.cache_clear()
    return code.digest(package / "script.py", *modules, lazy=lazy)


@pytest.mark.parametrize(
    ("edited", "lazy", "changes"),
    [
        ("script.py", True, True),
        ("graphdp/b.py", True, True),
        ("graphdp/sub/c.py", True, True),
        ("graphdp/sub/d.py", True, True),
        ("graphdp/sub/d.py", False, False),
        ("graphdp/sub/c.py", False, True),
        ("graphdp/sub/__init__.py", True, True),
        ("graphdp/a.py", True, False),
    ],
)
def test_digest_changes_exactly_with_the_code_in_use(package, edited, lazy, changes):
    before = digest(package, lazy)
    path = package / edited
    path.write_text(path.read_text() + "# edited\n")
    assert (digest(package, lazy) != before) is changes


def test_named_modules_count(package):
    with_a = digest(package, True, "graphdp.a")
    assert with_a != digest(package)
    (package / "graphdp/a.py").write_text("A = 2\n")
    assert digest(package, True, "graphdp.a") != with_a


def test_the_plot_code_is_no_part_of_training_and_the_trainer_none_of_plotting():
    root = Path(__file__).parent.parent
    fit = root / "workflow/scripts/fit.py"
    figure = root / "workflow/scripts/figure.py"

    def reached(script, *modules):
        found, queue = set(), [script, *(p for m in modules for p in code._files(m))]
        while queue:
            path = Path(queue.pop())
            if path not in found:
                found.add(path)
                queue += [p for m in code._imports(path, True) for p in code._files(m)]
        return {path.relative_to(code.PACKAGE).as_posix() for path in found if path != script}

    trained = reached(fit, "graphdp.methods.gap")
    plotted = reached(figure)
    assert "ensemble/training.py" in trained and "aggregation.py" in trained
    assert "paper/figures.py" in plotted
    assert not {name for name in trained if name.startswith("paper/")}
    assert not {name for name in plotted if name.startswith(("ensemble/", "methods/"))}
    assert "methods/gap.py" not in reached(fit, "graphdp.methods.mlp")
