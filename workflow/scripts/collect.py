"""Every trained model of the study, one row each."""

from graphdp import job
from graphdp.paper.rows import collect_rows


def main(snakemake):
    collect_rows(list(snakemake.input.models), snakemake.output[0])


job.run(snakemake, main)
