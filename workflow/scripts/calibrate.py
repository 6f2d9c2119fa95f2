"""The noise of every cell of a dataset, and the privacy statements of what is released with it."""

from pathlib import Path
from types import SimpleNamespace

from graphdp import io
from graphdp.data.graph import Graph
from graphdp.keys import root
from graphdp.progress import progress
from graphdp.workflow import job, released
from graphdp.workflow.calibrations import Kept


def main(snakemake):
    study, out = SimpleNamespace(**snakemake.params.study), snakemake.output
    graph = Graph.load(snakemake.input.graph)
    kept, secret = Kept(**snakemake.params.kept), root(snakemake.config)
    entries = {}
    for cell in progress(study.cells, "calibrate"):
        entries[cell["name"]] = released.calibrate_study_cell(cell, graph, study, kept, secret)
        io.write_json(Path(out.calibrations) / f"{cell['name']}.json", entries[cell["name"]])
    Path(out.statements).mkdir(parents=True)
    for one in progress(study.released, "state"):
        made = released.state(one, entries, graph, study.preprocessing, study.split, secret)
        io.write_json(Path(out.statements) / f"{one['name']}.json", made.json)
        io.write_text(Path(out.statements) / f"{one['name']}.md", made.page)


job.run(snakemake, main)
