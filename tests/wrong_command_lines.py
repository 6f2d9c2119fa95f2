"""Wrong command lines of `graphdp`: (words, what the message must have)."""

from collections.abc import Iterator
from pathlib import Path

from graphdp.methods.options import options

Line = tuple[list[str], list[str]]
GAP = "calibrate gap --level node --epsilon 8 --delta 1e-5 --train-nodes 1000"
FULL = f"{GAP} --batch-size 256 --epochs 10 --max-degree 100 --hops 2"
EDGE = "calibrate gap --level edge --epsilon 4 --delta 1e-6 --hops 2"


def _commands() -> Iterator[Line]:
    for words, parts in (
        ("", ["COMMAND"]), ("calibrat", ["calibrat"]), ("Calibrate gap", ["Calibrate"]),
        ("calibrate", ["method"]), ("calibrate gpa", ["gpa", "gap"]), ("calibrate GAP", ["GAP"]),
        ("calibrate gap", ["--level"]), ("calibrate gap --level edge", ["--epsilon"]),
        ("calibrate --level edge --epsilon 1", ["method"]), ("calibrate gap mlp", []),
        ("--epsilon 1", []), ("key", ["FILE"]), ("key a b", ["b"]), ("statement", ["FILE"]),
        ("statement a b", ["b"]), ("compare a", ["SECOND"]), ("compare a b c", ["c"]),
        ("status there-is-none", ["there-is-none"]), ("status a b", ["b"]), ("status .", []),
        ("statement --json a", ["--json"]), ("key --epsilon 1 a", ["--epsilon"]),
    ):  # fmt: skip
        yield words.split(), parts


def _targets() -> Iterator[Line]:
    """Levels, ε and δ."""
    for level in ("none", "k", "k0", "k-1", "k1.5", "k٣", "nod", "NODE", "", "edge,node", "inf"):
        yield ["calibrate", "gap", "--level", level, "--epsilon", "1"], ["--level"]
    yield ["calibrate", "gap", "--level", "k5", "--epsilon", "1"], ["gap", "k5"]
    yield ["calibrate", "heterpoisson", "--level", "edge", "--epsilon", "1"], ["edge"]
    yield EDGE.replace("gap --level edge", "dpdgc --level k0").split(), ["--level"]
    for level in ("k1000000", "k" + "9" * 50):
        yield EDGE.replace("gap --level edge", f"dpdgc --level {level}").split(), ["--level"]
    yield ["calibrate", "dpdgc", "--level", "k999999", "--epsilon", "1"], []
    for epsilon in ("-1", "nan", "many", "", "1e-9", "-inf", "1,4", "0x1", "-0.5", "1e-300"):
        yield [*EDGE.split(), "--epsilon", epsilon], ["epsilon"]
    for delta in ("0", "1", "-1e-5", "2", "nan", "inf", "auto", "", "1e-5x", "-inf",
                  "1e-320"):  # fmt: skip
        yield [*EDGE.split(), "--delta", delta], ["delta"]
    yield EDGE.replace("--delta 1e-6 ", "").split(), ["--delta"]
    yield f"{FULL} --nodes 5".split(), ["--nodes"]


def _counts() -> Iterator[Line]:
    for name in ("--train-nodes", "--nodes"):
        for value in ("0", "-5", "1.5", "many", "", "nan", "1e3"):
            yield [*FULL.split(), name, value], [name[2:].split("-")[0]]
        for value in ("9" * 400, "9" * 5000):
            yield [*FULL.split(), name, value], [name]
    yield FULL.replace(" --train-nodes 1000", "").split(), ["--train-nodes"]
    for name in ("--batch-size", "--epochs", "--max-degree", "--hops"):
        words = FULL.split()
        place = words.index(name)
        yield words[:place] + words[place + 2 :], [name]
        for value in ("0", "-1", "1.5", "many", "", "inf", "9" * 400):
            yield [*words[:place], name, value, *words[place + 2 :]], [name]

    # Their accounting would take hours.
    yield [*FULL.split(), "--epochs", "1000000000"], ["rounds", "fewer epochs"]
    yield [*FULL.split(), "--max-degree", "1000000001"], ["--max-degree", "equal to 1000000000"]
    deep = EDGE.replace("gap", "progap").replace("--hops 2", "--depth 1000000000000")
    yield deep.split(), ["--depth", "1000"]


def _options() -> Iterator[Line]:
    """Every option: with a value that it does not take, and where the plan does not read it."""
    for name, option in options().items():
        flag = f"--{name.replace('_', '-')}"
        if option.type is bool:
            yield [*EDGE.split(), f"{flag}=maybe"], [flag]
        else:
            yield [*EDGE.split(), flag], [flag]
            yield [*EDGE.split(), flag, "x y"], [flag]
            yield [*EDGE.split(), f"{flag}=-1"], [flag]
    yield [*EDGE.split(), "--hop", "2", "--hopss", "3"], ["--hopss"]
    yield [*EDGE.split(), "--batch-size", "5"], ["--batch-size"]
    yield [*EDGE.split(), "-v"], ["-v"]
    yield [*FULL.split(), "--max-grad-norm", "0"], ["--max-grad-norm"]
    yield [*FULL.split(), "--max-grad-norm", "nan"], ["--max-grad-norm"]


def _files(folder: Path) -> Iterator[Line]:
    contents = {
        "empty.json": b"", "half.json": b'{"schema_version": 2, "method": "g', "list.json": b"[]",
        "null.json": b"null", "number.json": b"3", "text.json": b'"a"', "nested.json": b"[[]]",
        "binary.json": bytes(range(256)), "nan.json": b'{"schema_version": NaN}',
        "other.json": b'{"schema_version": 99}', "deep.json": b"[" * 100_000,
        "rows.csv": b"study,dataset\ntiny,small\n",
    }  # fmt: skip
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        yield ["statement", name], [name]
        yield ["compare", name, name], [name]
    for name in ("there-is-none.json", ".", "empty.json/below", "a" * 300, ""):
        yield ["statement", name], []
        yield ["compare", name, "list.json"], []
    for name in (".", "list.json", "there/is/no/folder", "empty.json/below", "a" * 300, ""):
        yield ["key", name], []
    for name in ("a\0b",):
        yield ["key", name], []
        yield ["statement", name], []


def all_lines(folder: Path) -> list[Line]:
    """folder: an empty one, in which the commands run."""
    parts = (_commands(), _targets(), _counts(), _options(), _files(folder))
    return [line for part in parts for line in part]
