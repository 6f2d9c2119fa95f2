"""What people look at: every table and figure of the study, and the report."""

from graphdp import io
from graphdp.paper.artefacts import draw_all
from graphdp.workflow import job


def main(snakemake):
    files, out = snakemake.input, snakemake.output
    rows = {"rows": files.rows, "attacks": files.get("attacks") or None}
    context = io.read_json(files.context)
    shown = out.get("tables", []), out.get("figures", [])
    command = snakemake.config.get("command", "")
    draw_all(rows, context, *shown, out.report, files.get("statements", []), command)


job.run(snakemake, main)
