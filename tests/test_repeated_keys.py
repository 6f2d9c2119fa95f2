"""A key that stands twice is no choice between its values."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from graphdp import repeated_keys
from graphdp.data.datasets import load_registry
from graphdp.errors import GraphDPError
from graphdp.workflow.status import status

ROOT = Path(__file__).parent.parent
DEMO = (ROOT / "config/config.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("seeds: 1\nstudy: a\nseeds: 2\n", "seeds", 3),
        ("a:\n  - {method: gap, hops: 1, hops: 2}\n", "hops", 2),
        ("a: &x {b: 1, b: 2}\nc: *x\n", "b", 1),
        ('{"seeds": 1,\n "seeds": 1}', "seeds", 2),
        ("a: {<<: {b: 1}, b: 2, c: 3, c: 4}\n", "c", 1),
    ],
)
def test_it_is_named_with_its_line(tmp_path, text, key, line):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(GraphDPError, match=rf"study.yaml, line {line}: '{key}' stands twice"):
        repeated_keys.check(path)


@pytest.mark.parametrize(
    "text",
    [
        "a: {b: 1}\nc: {b: 1}\n",
        "a: &x {b: 1}\nc: {<<: *x, b: 2}\nd: {<<: *x, b: 3}\n",  # what is merged gives way
        "a: {<<: [{b: 1}, {b: 2}]}\n",
        "1: a\n'1': b\n",  # a number and a text
        "- a\n- a\n",
        "",
        "a: [\n",  # no YAML: for who reads it
    ],
)
def test_what_stands_once_in_each_mapping_is_none(tmp_path, text):
    path = tmp_path / "study.yaml"
    path.write_text(text)
    repeated_keys.check(path)
    repeated_keys.check(tmp_path / "there-is-none.yaml")


def test_a_file_that_is_too_deep_is_one_line(tmp_path):
    path = tmp_path / "deep.yaml"
    path.write_text("[" * 2000 + "]" * 2000)
    with pytest.raises(GraphDPError, match=r"deep\.yaml: brackets or lists stand in one another"):
        repeated_keys.check(path)


def test_no_shipped_file_has_one():
    files = [*(ROOT / "config").rglob("*.yaml"), *(ROOT / "workflow").rglob("*.yaml")]
    assert len(files) > 12
    for path in files:
        repeated_keys.check(path)


def test_a_study_and_a_registry_with_one_are_refused(tmp_path, monkeypatch):
    """By the workflow, by `graphdp status` and by every job that reads the registry."""
    monkeypatch.chdir(ROOT)
    path = tmp_path / "study.yaml"
    path.write_text(f"{DEMO}\nseeds: {yaml.safe_load(DEMO)['seeds']}\n")
    command = [sys.executable, "-m", "snakemake", "--dry-run", "--configfile", str(path)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.returncode != 0 and "'seeds' stands twice there" in found.stdout + found.stderr
    with pytest.raises(GraphDPError, match="'seeds' stands twice"):
        status(path)
    registry = tmp_path / "datasets.yaml"
    text = (ROOT / "config/datasets.yaml").read_text()
    registry.write_text(text.replace("\ndatasets:\n", "\ndatasets:\n  cora: {}\n", 1))
    with pytest.raises(GraphDPError, match=r"datasets.yaml, line \d+: 'cora' stands twice"):
        load_registry(registry)
