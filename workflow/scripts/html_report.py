"""The report: one self-contained HTML page."""

from pathlib import Path

from graphdp import io, job
from graphdp.paper.report import build_report


def main(snakemake):
    by_name = [
        {Path(p).stem: p for p in files}
        for files in (snakemake.input.get("tables", []), snakemake.input.get("figures", []))
    ]
    context = io.read_json(snakemake.input.context)
    build_report(snakemake.input.rows, context, *by_name, snakemake.output[0])


job.run(snakemake, main)
