"""Every attacked model of the study, one row each."""

from graphdp.paper.attack import collect_attacks
from graphdp.workflow import job


def main(snakemake):
    collect_attacks(list(snakemake.input), snakemake.output[0])


job.run(snakemake, main)
