"""Fails, naming them, if audits did not come out as they must."""

from graphdp.audit import outcomes as report
from graphdp.workflow import job


def main(snakemake):
    report.check(report.read(snakemake.input.claims))


job.run(snakemake, main)
