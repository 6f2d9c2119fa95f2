"""What a study asks for, as its artefacts and its report need to know it."""

from collections.abc import Mapping
from typing import Any

from graphdp.config import Study, is_about
from graphdp.methods.registry import card
from graphdp.privacy.protection import is_private


def about(study: Study, unavailable: Mapping[str, str]) -> dict[str, Any]:
    """A study as `graphdp.paper.context.study_context` takes it.

    unavailable: dataset -> why it is not there.
    """
    return {
        "study": study.study,
        "title": study.title,
        "paper": study.paper,
        "datasets": study.datasets,
        "unavailable": dict(unavailable),
        "published": f"config/published/{study.paper}.csv" if study.paper else None,
        "orderings": "config/published/orderings.csv" if study.paper else None,
        "experiments": experiments(study),
        "attacks": attacks(study),
    }


def experiments(study: Study) -> dict[str, list[dict[str, Any]]]:
    """What each experiment asks for: its entries with the ε of this run.

    A hyperparameter has a list of values, or {dataset: list, "default": list} where `per_dataset`
    replaces its default.
    """
    return {
        name: [_spec(study, entry) for entry in entries]
        for name, entries in study.experiments.items()
    }


def attacks(study: Study) -> dict[str, list[dict[str, Any]]]:
    """What each attack asks for, in the form of `experiments`."""
    return {
        name: [_spec(study, entry) for entry in attack.entries]
        for name, attack in study.attacks.items()
    }


def _spec(study: Study, entry: Any) -> dict[str, Any]:
    spec = {"method": entry.method, "level": entry.level}
    spec["epsilon"] = epsilons(study, entry)
    if entry.except_datasets is not None:
        spec["datasets"] = [name for name in study.datasets if is_about(entry, name)]
    elif entry.datasets is not None:
        spec["datasets"] = list(entry.datasets)
    for name in card(entry.method).settings(entry.level).model_fields:
        values = [value for value in getattr(entry, name) if value is not None]
        replaced = {
            dataset: _replacing(study, entry, dataset, name)
            for dataset, own in study.per_dataset.items()
            if name in own
            and name not in entry.model_fields_set
            and entry in study.entries_of(dataset)
        }
        if replaced:
            spec[name] = ({"default": values} if values else {}) | replaced
        elif values:
            spec[name] = values
    return spec


def _replacing(study: Study, entry: Any, dataset: str, name: str) -> list | None:
    """The values of a hyperparameter that models of a dataset have, where its own stand."""
    settings = study.settings(dataset, entry)
    return list(dict.fromkeys(one[name] for one in settings if name in one)) or None


def epsilons(study: Study, entry: Any) -> list[str]:
    """The ε tokens of an experiment's entry: "inf" at level none, else the study's or its own."""
    if not is_private(entry.level):
        return ["inf"]
    return list(study.epsilons or entry.epsilon)
