"""What a private release publishes of its one model."""

from pathlib import Path

from graphdp.workflow import job
from graphdp.workflow.publish import publish


def main(snakemake):
    out, params = snakemake.output, snakemake.params
    statement = Path(snakemake.input.statements) / params.name
    publish(params.row, statement, row=out.row, model=out.model, json=out.json, md=out.md)


job.run(snakemake, main)
