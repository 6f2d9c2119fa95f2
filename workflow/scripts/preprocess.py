"""Raw files -> one checked, immutable graph and its statistics."""

from pathlib import Path

from graphdp import io
from graphdp.data.datasets import DatasetSpec
from graphdp.data.placed import verify
from graphdp.data.preprocess import preprocess, statistics
from graphdp.workflow import job
from graphdp.workflow.released_data import check_graph_not_released


def main(snakemake):
    folder = Path(snakemake.input[0]).parent
    spec = DatasetSpec.model_validate_json(snakemake.params.spec)
    verify(spec, folder, snakemake.config["mirror"])
    graph = preprocess(spec, folder)
    if snakemake.config["release"] != "private":
        check_graph_not_released(spec, graph)
    graph.save(snakemake.output.graph)
    io.write_json(snakemake.output.statistics, statistics(graph))


job.run(snakemake, main)
