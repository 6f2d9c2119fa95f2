"""All audits as one table and one figure."""

from graphdp import job
from graphdp.audit import report


def main(snakemake):
    out = snakemake.output
    results = report.read(snakemake.input)
    report.write(results, csv=out.csv, md=out.md, tex=out.tex, svg=out.svg, png=out.png)


job.run(snakemake, main)
