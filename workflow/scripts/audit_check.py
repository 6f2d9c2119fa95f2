"""Fails, naming them, if audits did not come out as they must."""

from graphdp.audit import outcomes
from graphdp.workflow import job


def main(snakemake):
    outcomes.check(outcomes.read(snakemake.input.claims))


job.run(snakemake, main)
