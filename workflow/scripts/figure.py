"""One figure, as SVG and PNG."""

from graphdp import io, job
from graphdp.paper.figures import build_figure


def main(snakemake):
    out = snakemake.output
    context = io.read_json(snakemake.input.context)
    build_figure(snakemake.wildcards.figure, snakemake.input.rows, context, out.svg, out.png)


job.run(snakemake, main)
