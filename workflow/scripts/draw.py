"""What people look at: every table and figure of the study, and the report."""

from graphdp import io
from graphdp.paper.artefacts import draw_all
from graphdp.workflow import job


def main(snakemake):
    files, out = snakemake.input, snakemake.output
    rows = {"rows": files.rows, "attacks": files.get("attacks")}
    context = io.read_json(files.context)
    draw_all(rows, context, out.get("tables", []), out.get("figures", []), out.report)


job.run(snakemake, main)
