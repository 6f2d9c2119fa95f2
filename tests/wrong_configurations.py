"""Wrong configurations, derived from the types of `graphdp.config`: (what is wrong, configuration,
words that the message must have)."""

import copy
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from graphdp.config import GRIDS, Attack, Study
from graphdp.methods.registry import card

Case = tuple[str, dict[str, Any], list[str]]


def study(**changes: Any) -> dict[str, Any]:
    """A study that is right, with changes."""
    entry = {"method": "gap", "level": "edge", "epsilon": [1, 4], "hops": [1, 2]}
    right = {"study": "tiny", "datasets": ["csbm"], "experiments": {"a": [entry]}}
    right |= {"tables": ["statistics"], "figures": []}
    return copy.deepcopy(right | changes)


def entry_of(method: str, level: str) -> dict[str, Any]:
    """An entry that is right."""
    shown = "k5" if level == "k" else level
    return {"method": method, "level": shown} | ({} if level == "none" else {"epsilon": [4]})


def wrong_values(annotation: Any, metadata: tuple = ()) -> Iterator[Any]:
    """Values that a type does not take, each in another way."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from wrong_values(args[0], (*metadata, *args[1:]))
        return
    if origin in (Union, types.UnionType):
        for arg in args:
            if arg is not type(None):
                yield from wrong_values(arg, metadata)
        return
    if annotation is bool:
        yield from ("maybe", 2, [], {"a": 1}, None)
    elif annotation in (int, float):
        yield from ("many", "", True, False, {}, {"a": 1}, "1 2", float("nan"))
        if annotation is int:
            yield from (1.5, float("inf"), "1.5")
        for bound in metadata:
            lowest = getattr(bound, "ge", None), getattr(bound, "gt", None)
            yield from (low - 1 for low in lowest if low is not None)
            highest = getattr(bound, "le", None), getattr(bound, "lt", None)
            yield from (high + 1 for high in highest if high is not None)
            yield from (edge for edge in (lowest[1], highest[1]) if edge is not None)
    elif annotation is str:
        yield from (3, True, ["a", "a"], {"a": 1})
    elif origin is Literal:
        for value in args:
            if isinstance(value, str):
                yield value[:-1] + "_"
                yield value.upper()
        yield from (3.5, {"a": 1}, [[]])
    elif origin is list:
        yield from ({"a": 1}, [None], [[]], [{}])


def takes_null(annotation: Any) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return takes_null(get_args(annotation)[0])
    return origin in (Union, types.UnionType) and type(None) in get_args(annotation)


def misspelt(name: str) -> str:
    """A name with two letters exchanged, or one doubled."""
    middle = len(name) // 2
    swapped = name[: middle - 1] + name[middle] + name[middle - 1] + name[middle + 1 :]
    return swapped if swapped != name else name + name[-1]


def of_the_study() -> Iterator[Case]:
    """Every key of a study: misspelt, and with values that are of another type or out of range."""
    for name, info in Study.model_fields.items():
        value = study().get(name, 1)
        yield f"{name} misspelt", study(**{misspelt(name): value}), [misspelt(name), name]
        if name in ("definitions", "per_dataset", "split_fractions", "experiments", "attacks"):
            wrong: list[Any] = ["x", 3, True, [], ["csbm"], {"a b": {}}, {"": {}}, {"csbm": 3}]
        else:
            wrong = list(wrong_values(info.annotation, tuple(info.metadata)))
            if not takes_null(info.annotation):
                wrong.append(None)
        for number, value in enumerate(wrong):
            yield f"{name} {number}: {value!r}", study(**{name: value}), []


def of_the_entries() -> Iterator[Case]:
    """Every hyperparameter of every method and level, as an entry's, an attack's or a dataset's."""
    for method, level in GRIDS:
        right = entry_of(method, level)
        for name, info in card(method).settings(right["level"]).model_fields.items():
            wrong = list(wrong_values(info.annotation, tuple(info.metadata)))
            own = f"{method} {level} {name}"
            yield f"{own} misspelt", with_entry(right | {misspelt(name): 1}), [misspelt(name), name]
            yield f"{own} empty", with_entry(right | {name: []}), [name]
            for number, value in enumerate(wrong):
                yield f"{own} {number}: {value!r}", with_entry(right | {name: value}), [name]
            own_values = {"per_dataset": {"csbm": {name: wrong[0]}}}
            yield f"{own} of a dataset", with_entry(right) | own_values, [name, "csbm"]
        if level != "none":
            for value in (
                [],
                ["x"],
                0,
                -1,
                "inf",
                float("nan"),
                True,
                [1, 1.0],
                None,
                1e-7,
                10**400,
            ):
                yield (
                    f"{method} {level} epsilon {value!r:.20}",
                    with_entry(right | {"epsilon": value}),
                    [],
                )
        else:
            yield f"{method} none has no epsilon", with_entry(right | {"epsilon": [1]}), ["epsilon"]
        for value in (
            "nod",
            "k",
            "k0",
            "k-1",
            "k1.5",
            "k٣",
            "k01",
            "NODE",
            3,
            None,
            ["edge"],
            True,
        ):
            yield f"{method} level {value!r}", with_entry(right | {"level": value}), ["level"]
        for value in ([], ["pubmde"], "pub med", 3, [None], ["csbm", "csbm"]):
            yield (
                f"{method} {level} datasets {value!r}",
                with_entry(right | {"datasets": value}),
                [],
            )
    for value in ("gpa", "GAP", "", None, 3, ["gap"], {}):
        yield f"method {value!r}", with_entry({"method": value, "level": "none"}), ["method"]
    for value in (None, 3, "gap", [], ["gap"], {}, {1: 2}, {"method": "gap"}, True):
        yield f"an entry that is {value!r}", with_entry(value), []
    gap = entry_of("gap", "none")
    yield "a key that is no text", with_entry(gap | {3: 4}), []
    yield "a key of two lines", with_entry(gap | {"a\nb": 4}), []
    yield "an epsilon too many", with_entry(gap | {"epsilon": 4}), ["epsilon", "none"]


def with_entry(entry: Any) -> dict[str, Any]:
    return study(experiments={"a": [entry]})


def of_attacks() -> Iterator[Case]:
    right = {"entries": [entry_of("mlp", "none")]}
    for name in Attack.model_fields:
        wrong = {"nmi": right | {misspelt(name): 1}}
        yield f"attack {name} misspelt", study(attacks=wrong), [misspelt(name), name]
    for value in (0, -1, 1.5, "many", True, [], None):
        yield (
            f"nodes_per_class {value!r}",
            study(attacks={"nmi": right | {"nodes_per_class": value}}),
            ["nodes_per_class"],
        )
    for value in (None, [], {}, "mlp", 3, [3], [{"method": "mlp", "level": "node"}]):
        yield f"attacked {value!r}", study(attacks={"nmi": {"entries": value}}), []
    for value in (None, [], 3, "x"):
        yield f"attack {value!r}", study(attacks={"nmi": value}), []
        yield f"attack nmy {value!r}", study(attacks={"nmy": value}), []


def of_what_is_named() -> Iterator[Case]:
    """Names of what is not there, shares, sizes, and names that mean something else."""
    for name in ("data", "cache", "audit", "Data", "CACHE"):
        yield f"study {name}", study(study=name), ["study", name.lower()]
    for name in ("", ".", "..", "a/b", "a b", "-x", "a\n", "ä", "../x", "a*"):
        yield f"study {name!r}", study(study=name), ["study"]
    for name, near in (
        ("acuracy", "accuracy"),
        ("figure6", "table"),
        ("table 2", "name"),
        ("", ""),
    ):
        yield f"table {name!r}", study(tables=[name]), ["tables", near]
    for name, near in (
        ("figure66", "figure6"),
        ("accuracy", "figure"),
        ("fig", "figure"),
        ("../x", ""),
    ):
        yield f"figure {name!r}", study(figures=[name]), ["figures", near]
    for key in ("tables", "figures"):
        right = {"tables": "accuracy", "figures": "figure6"}[key]
        yield f"{key} twice", study(**{key: [right, right]}), [key]
    for name, near in (("gpa", "gap"), ("orderings", "gap"), ("nobody", "gap"), ("GAP", "gap")):
        yield f"paper {name}", study(paper=name), ["paper", near]
    for name, near in (
        ("pubmde", "pubmed"),
        ("Cora", "cora"),
        ("csbn", "csbm"),
        ("nothing-like-it", ""),
    ):
        named = ["dataset", name, near]
        yield f"dataset {name}", study(datasets=[name]), named
        yield f"per_dataset {name}", study(per_dataset={name: {"hidden": 8}}), named
        yield f"shares of {name}", study(split_fractions={name: [0.5, 0.25, 0.25]}), named
        yield f"entry of {name}", with_entry(entry_of("gap", "none") | {"datasets": [name]}), named
        yield f"definition of {name}", study(definitions={"a": {"base": name}}), named
    yield (
        "no dataset has an entry",
        with_entry(entry_of("gap", "none") | {"datasets": ["cora"]}),
        ["experiments"],
    )
    yield (
        "per_dataset of an unknown name",
        study(per_dataset={"csbm": {"hiden": 8}}),
        ["hiden", "hidden"],
    )
    yield "per_dataset empty", study(per_dataset={"csbm": {"hidden": []}}), ["hidden", "csbm"]
    for shares in (
        [0.5, 0.25, 0.2], [0.75, 0.1, 0.151], [1, 1, 1], [0.5, 0.5, 0], [0.5, 0.5], [0.25] * 4,
        [1.5, -0.25, -0.25],
        [], "0.75/0.1/0.15", 0.75, None, [True, 0.1, 0.15], ["a", "b", "c"], {"train": 0.5},
        [float("nan"), 0.5, 0.5], [0.9, 0.05, 0.06],
    ):  # fmt: skip
        yield f"shares {shares!r}", study(split_fractions={"csbm": shares}), ["split_fractions"]
    for parameters in (
        {"n": 0}, {"n": 1}, {"n": -5}, {"n": 1.5}, {"n": "many"}, {"n": True}, {"n": None},
        {"n": []}, {"f": 0}, {"f": -1},
        {"f": 2.5}, {"f": True}, {"d": 0}, {"d": -1}, {"d": "x"}, {"d": float("nan")},
        {"d": float("inf")}, {"d": 1e9},
        {"d": 1}, {"d": 10**400}, {"d": -(10**400)}, {"n": 10**400, "f": 0}, {"epsilon": 10**400},
        {"phi": 10**400}, {"n": 10, "d": 20}, {"phi": 1.5}, {"phi": -1.01}, {"phi": float("nan")},
        {"phi": "0"}, {"phi": True},
        {"epsilon": -1}, {"epsilon": -2.0}, {"epsilon": float("inf")}, {"nn": 5}, {"N": 5},
        {"seed": 1.5}, {"seed": True},
    ):  # fmt: skip
        wrong = study(
            datasets=["mine"], definitions={"mine": {"base": "csbm", "parameters": parameters}}
        )
        yield f"csbm {parameters}", wrong, []
        unused = study(definitions={"mine": {"base": "csbm", "parameters": parameters}})
        yield f"csbm {parameters}, not used", unused, ["mine"]
    for definition in (
        None, [], 3, {}, {"bas": "csbm"}, {"base": 3}, {"base": "mine"},
        {"base": "csbm", "parameter": {}},
        {"base": "csbm", "preprocessing": {"symetrise": True}},
        {"base": "csbm", "preprocessing": {"symmetrise": "x"}},
        {"base": "csbm", "preprocessing": {"min_class_count": -1}}, {"base": "csbm", "title": 3},
        {"base": "csbm", "parameters": 3},
        {"base": "csbm", "statistics": {"nodes": "many"}}, {"base": "cora", "parameters": {"n": 5}},
    ):  # fmt: skip
        yield f"definition {definition!r}", study(definitions={"mine": definition}), ["mine"]
    yield "definition of a registered name", study(definitions={"cora": {"base": "csbm"}}), ["cora"]
    yield (
        "definition of a reserved name",
        study(definitions={"bundles": {"base": "csbm"}}),
        ["bundles"],
    )
    for name in ("a b", "", "a/b", "..", "ä"):
        yield (
            f"experiment {name!r}",
            study(experiments={name: [entry_of("gap", "none")]}),
            ["experiments"],
        )
        yield f"definition {name!r}", study(definitions={name: {"base": "csbm"}}), []
    for delta in (
        0,
        1,
        -1e-5,
        2,
        "Auto",
        "x",
        True,
        None,
        [],
        float("nan"),
        float("inf"),
        {"a": 1},
        "at most",
        "at most 2",
        "at most auto",
        "most 1e-5",
    ):
        yield f"delta {delta!r}", study(delta=delta), ["delta"]
    for epsilons in (
        [],
        [0],
        [-1],
        ["inf"],
        ["x"],
        [True],
        [1, 1.0],
        [[1]],
        {"a": 1},
        [None],
        [1e-7],
        "1,4",
        [10**400],
    ):
        yield f"epsilons {epsilons!r:.30}", study(epsilons=epsilons), ["epsilon"]
    for known in ("there-is-none.csv", ["a.csv", "a.csv"], [3], {"a": 1}, [""], ["config"], True):
        yield f"known_rows {known!r}", study(known_rows=known), ["known_rows"]
    for name in ("key_file", "train_nodes"):
        yield f"{name} of a reproduction", study(**{name: "1"}), [name]
    yield "no dataset", {k: v for k, v in study().items() if k != "datasets"}, ["datasets"]
    yield "no study", {k: v for k, v in study().items() if k != "study"}, ["study"]
    yield "nothing", {}, []
    yield "only a number", {3: 4}, []


def of_values_together() -> Iterator[Case]:
    """Values that are right one by one and not together."""
    dpa, official = entry_of("dpa", "node"), entry_of("dpaofficial", "node")
    tcp, ssh = dpa | {"transport": "tcp"}, {"launch": "ssh {host}"}
    heter = entry_of("heterpoisson", "node")
    candidates = heter | {"degree_bound": "public_candidates", "max_degree": 4}
    for entry, words in (
        (dpa | {"parties": 2, "shares": 3}, ["shares is 3 with 2 parties"]),
        (dpa | {"parties": 1, "shares": 1}, ["at least 2"]),
        (dpa | {"shares": 1}, ["shares is 1"]),
        (dpa | {"colluding": 2}, ["colluding is 2 with 2 shares"]),
        (dpa | {"colluding": [0, 1, -1]}, ["colluding is -1"]),
        (dpa | {"feature_share": 1}, ["feature_share 1"]),
        (dpa | {"feature_share": 0.6, "label_share": [0.3, 0.5]}, ["label_share 0.5"]),
        (dpa | {"listen": "127.0.0.1"}, ["listen", "transport: tcp"]),
        (dpa | {"tls": "keys"}, ["tls", "transport: tcp"]),
        (dpa | {"transport": ["tcp", None], "tls": "keys"}, ["tls", "transport: tcp"]),
        (dpa | {"hosts": "a b c d"}, ["hosts", "transport: tcp"]),
        (dpa | {"launch": "nice"}, ["launch", "transport: tcp"]),
        (tcp | {"hosts": "a b c d"}, ["hosts needs launch", "launch: ssh {host}"]),
        (tcp | ssh | {"hosts": "a b c"}, ["hosts names 3", "need 4"]),
        (tcp | ssh | {"hosts": "a b c d", "parties": 4}, ["hosts names 4", "need 5"]),
        (tcp | ssh | {"hosts": ""}, ["hosts names 0"]),
        (tcp | ssh | {"hosts": "a,b,c,d"}, ["'a,b,c,d'", "spaces"]),
        (tcp | ssh | {"hosts": "a b c -oProxyCommand=x"}, ["'-oProxyCommand=x' is not a host"]),
        (tcp | ssh, ["launch names {host}", "give hosts"]),
        (tcp | {"hosts": "a b c d", "launch": "ssh"}, ["on which host"]),
        (tcp | {"hosts": "a b c d", "launch": "ssh {node}"}, ["{node} is not known", "{host}"]),
        (tcp | {"hosts": "a b c d", "launch": "ssh {host!r}"}, ["launch", "{host}"]),
        (tcp | {"hosts": "a b c d", "launch": "ssh {host"}, ["launch", "ssh {host}"]),
        (tcp | {"hosts": "a b c d", "launch": "ssh '{host}"}, ["launch: no closing quotation"]),
        (tcp | {"launch": " "}, ["launch is empty"]),
        (tcp | {"listen": "10.0.0.1"}, ["listen: shares sent to 10.0.0.1 in clear", "give tls"]),
        (
            tcp | ssh | {"hosts": "::1 ::1 10.0.0.2 ::1"},
            ["hosts: shares sent to 10.0.0.2 in clear"],
        ),
        (
            tcp | ssh | {"hosts": "allocation"},
            ["hosts: shares sent to an allocation's", "give tls"],
        ),
        (tcp | {"tls": "keys", "listen": "0.0.0.0"}, ["listen: 0.0.0.0 is no address"]),
        (
            tcp | ssh | {"tls": "keys", "hosts": "allocation", "listen": "::"},
            ["listen: :: is no address"],
        ),
        (
            tcp | ssh | {"tls": "keys", "hosts": "a b c d"},
            ["a does not reach 127.0.0.1", "this machine's address"],
        ),
        (dpa | {"level": "edge", "parties": 2, "shares": 3}, ["shares is 3"]),
        (official | {"shares": 4}, ["shares is 4 with 3 parties"]),
        (official | {"parties": 2}, ["parties"]),
        (heter | {"analysis": "revealed_centres"}, ["revealed_centres", "hidden_coins"]),
        (heter | {"analysis": "hidden_coins", "overlap": "dropped"}, ["revealed_centres"]),
        (heter | {"degree_bound": "public_candidates"}, ["needs max_degree"]),
        (
            entry_of("gap", "node") | {"differing_terms": "all", "adjacency": "node_replace"},
            ["differing_terms"],
        ),
    ):
        yield f"together {entry}", with_entry(entry), words
        attacked = {"nmi": {"entries": [entry]}}
        single = not any(isinstance(v, list) and len(v) > 1 for v in entry.values())
        if single:
            yield f"attacked {entry}", study(attacks=attacked), words
    for name, value in (("parties", 2), ("shares", 4), ("colluding", 3), ("listen", "host")):
        of_dataset = {"per_dataset": {"csbm": {name: value}}}
        right = {"shares": 3} if name == "parties" else {}
        yield f"{name} of a dataset", with_entry(dpa | right) | of_dataset, [name]
    yield "published split", with_entry(candidates) | {"split_sides": "published"}, ["split_sides"]
    yield "of no entry", study(per_dataset={"csbm": {"dummy_rate": 0.3}}), ["csbm", "dummy_rate"]
    yield "nothing to show", study(train=False), ["train", "known_rows"]
    for number in (10**9, 10_001):
        yield f"{number} seeds", study(seeds=number), ["seeds", "10000"]
    long = "a" * 101
    yield "a long study", study(study=long), ["study", "100"]
    yield "a long experiment", study(experiments={long: [entry_of("gap", "none")]}), ["100"]
    yield (
        "a long definition",
        study(datasets=[long], definitions={long: {"base": "csbm"}}),
        ["100"],
    )
    for size in ({"n": 10**12}, {"f": 10**9}, {"n": 10**400}, {"f": 10**400}):
        wrong = study(datasets=["m"], definitions={"m": {"base": "csbm", "parameters": size}})
        yield f"csbm of {size}", wrong, ["'m'", "numbers; give at most"]
    for seed in (-5, 2**64, 10**400):
        yield f"study_seed {seed!r:.20}", study(study_seed=seed), ["study_seed"]
    for epsilon in (1e300, 1e7, "1e+07"):
        yield f"epsilon {epsilon}", with_entry(dpa | {"epsilon": [epsilon]}), ["epsilon", "1e+06"]
    for level in ("k1000000", "k" + "9" * 400):
        yield f"level {level:.9}", with_entry(entry_of("dpdgc", "k") | {"level": level}), ["level"]
    for known in ("config/config.yaml", "Makefile", "workflow/report/results.png"):
        yield f"known rows {known}", study(known_rows=[known]), ["known_rows", known]
    other = "workflow/report/dpa-rows.csv.gz"
    yield "known rows of another study", study(known_rows=[other]), ["known_rows", "'dpa'"]


def of_private_releases() -> Iterator[Case]:
    right = study(
        release="private", key_file="/nowhere/key", delta=1e-5, train_nodes=100,
        experiments={"a": [entry_of("mlp", "node")]}, calibrate_for="corrected",
    )  # fmt: skip
    for name, value in (
        ("seeds", 2), ("delta", "auto"), ("train_nodes", None), ("train_nodes", 0),
        ("key_file", None),
        ("tables", ["accuracy"]), ("figures", ["figure6"]), ("checkpoint", "best_validation"),
        ("split_sides", "published"),
        ("train", False), ("datasets", ["csbm", "cora"]), ("epsilons", [1, 2]),
        ("key_file", "results/key"),
        ("experiments", {"a": [entry_of("mlp", "node") | {"hidden": [8, 16]}]}),
        ("key_file", "a\0b"),
        ("experiments", {"a": [entry_of("mlp", "none")]}),
        ("per_dataset", {"csbm": {"hidden": -1}}),
    ):  # fmt: skip
        yield f"private {name} {value!r}", right | {name: value}, []


def all_cases() -> list[Case]:
    groups = (of_the_study, of_the_entries, of_attacks, of_what_is_named, of_values_together,
              of_private_releases)  # fmt: skip
    return [case for group in groups for case in group()]
