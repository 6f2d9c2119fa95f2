"""Raw files -> one checked, immutable graph and its statistics."""

from pathlib import Path

from graphdp import io
from graphdp.data.datasets import DatasetSpec
from graphdp.data.preprocess import preprocess, statistics
from graphdp.workflow import job


def main(snakemake):
    graph = preprocess(
        DatasetSpec.model_validate_json(snakemake.params.spec), Path(snakemake.input[0]).parent
    )
    graph.save(snakemake.output.graph)
    io.write_json(snakemake.output.statistics, statistics(graph))


job.run(snakemake, main)
