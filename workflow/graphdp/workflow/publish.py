"""A private release: what of its files is published."""

import os
from pathlib import Path

from graphdp import io
from graphdp.errors import GraphDPError
from graphdp.paper.rows import read_rows


def publish(
    row_file: str | os.PathLike,
    statement: str | os.PathLike,
    *,
    row: str | os.PathLike,
    model: str | os.PathLike,
    json: str | os.PathLike,
    md: str | os.PathLike,
) -> None:
    """Copy the row of a private model, the model and its privacy statement.

    row_file: as `model_rows.write_rows` leaves it, with the model beside it as `.npz`. statement:
    path of the statement, without a suffix. Raises `GraphDPError` for a row of another kind of
    release or of several models, and for a model that is not the one of which the row speaks.
    """
    found = read_rows(row_file)
    if list(found["release"]) != ["private"]:
        raise GraphDPError(f"{row_file} is not the row of one private model: run the study again")
    arrays = Path(row_file).with_suffix(".npz")
    if not arrays.is_file() or io.sha256_file(arrays) != found["model_sha256"].iloc[0]:
        raise GraphDPError(
            f"{arrays} is missing or damaged: delete {row_file} and run again, which makes the "
            "same model"
        )
    copies = {row: row_file, model: arrays, json: f"{statement}.json", md: f"{statement}.md"}
    for target, source in copies.items():
        with io.atomic_path(target) as temporary:
            temporary.write_bytes(Path(source).read_bytes())
