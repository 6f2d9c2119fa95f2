"""All audits as one table and one figure."""

from graphdp.audit import outcomes
from graphdp.workflow import job


def main(snakemake):
    out = snakemake.output
    results = outcomes.read(snakemake.input.claims)
    outcomes.write(results, csv=out.csv, md=out.md, tex=out.tex, svg=out.svg, png=out.png)


job.run(snakemake, main)
