"""Every attacked model of the study, one row each."""

from graphdp import job
from graphdp.attacks.rows import collect_rows


def main(snakemake):
    collect_rows(list(snakemake.input), snakemake.output[0])


job.run(snakemake, main)
