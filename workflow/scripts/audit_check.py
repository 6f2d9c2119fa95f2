"""Fails, naming them, if audits did not come out as they must."""

from graphdp import job
from graphdp.audit import report


def main(snakemake):
    report.check(report.read(snakemake.input.claims))


job.run(snakemake, main)
