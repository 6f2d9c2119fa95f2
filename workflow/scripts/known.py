"""The rows of a block of a cell, from those that the study names under `known_rows`."""

from graphdp import job
from graphdp.grid import Cell
from graphdp.methods.block import Block
from graphdp.paper.known import KnownRows, take_over


def main(snakemake):
    names = snakemake.wildcards
    cell = Cell(
        names.dataset, names.method, names.level, names.epsilon, names.experiment,
        tuple(snakemake.params.settings),
    )  # fmt: skip
    known = KnownRows(snakemake.input.rows, names.study)
    take_over(known, cell, Block.of_job(snakemake), snakemake.output[0])


job.run(snakemake, main)
