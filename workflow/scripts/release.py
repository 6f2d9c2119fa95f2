"""What a private release publishes of its one model."""

from pathlib import Path

from graphdp import private
from graphdp.workflow import job
from graphdp.workflow.publish import publish


def main(snakemake):
    out, params = snakemake.output, snakemake.params
    statement = Path(snakemake.input.statements) / params.name
    files = {name: out[name] for name in ("row", "model", "json", "md")}
    publish(params.row, statement, **files)
    private.record_published(files.values(), out.record)


job.run(snakemake, main)
