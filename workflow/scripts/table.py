"""One table, as CSV, Markdown and LaTeX."""

from graphdp import io, job
from graphdp.paper.tables import build_table


def main(snakemake):
    out = snakemake.output
    context = io.read_json(snakemake.input.context)
    build_table(snakemake.wildcards.table, snakemake.input.rows, context, out.csv, out.md, out.tex)


job.run(snakemake, main)
