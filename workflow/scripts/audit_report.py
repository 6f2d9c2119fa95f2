"""All audits as one table and one figure."""

from graphdp.audit import outcomes as report
from graphdp.workflow import job


def main(snakemake):
    out = snakemake.output
    results = report.read(snakemake.input.claims)
    report.write(results, csv=out.csv, md=out.md, tex=out.tex, svg=out.svg, png=out.png)


job.run(snakemake, main)
