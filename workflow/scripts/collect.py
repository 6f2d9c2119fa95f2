"""Every model of the study, one row each, and what artefacts need to know besides the rows."""

from pathlib import Path

from graphdp import io
from graphdp.paper import rows
from graphdp.paper.context import study_context
from graphdp.workflow import job, known_rows


def main(snakemake):
    files, params, out = snakemake.input, snakemake.params, snakemake.output
    folders = {Path(folder).name: Path(folder) for folder in files.calibrations}
    known = None
    if params.known:
        graphs = {Path(path).stem: path for path in files.graphs}
        known = known_rows.known_models(files.known, params.known, graphs, folders)
    for model in params.models:
        rows.check_models(model["file"], model["block"], model["settings"], model["seeds"])
    rows.collect_rows([model["file"] for model in params.models], out.rows, known)
    statistics = {Path(path).stem: io.read_json(path) for path in files.statistics}
    entries = [io.read_json(folders[dataset] / f"{name}.json") for dataset, name in params.cells]
    io.write_json(out.context, study_context(params.about, statistics, entries))


job.run(snakemake, main)
