"""Write the privacy statements of a dataset, method, level and ε: JSON, and a page to read."""

from graphdp import io, job, methods
from graphdp.privacy.statement import cell_statements
from graphdp.privacy.statement_page import render_pages


def main(snakemake):
    names, params = snakemake.wildcards, snakemake.params
    graph = io.read_json(snakemake.input.statistics)
    entries = [e for path in snakemake.input.calibrations for e in io.read_json(path)]
    statements = cell_statements(
        entries,
        names.dataset,
        graph["fingerprint"],
        graph["nodes"],
        graph["edges"],
        names.method,
        methods.checkpoint(names.method, names.level, params.checkpoint),
        params.tried,
        # Symmetrised graphs are undirected; of the others it is not known.
        params.preprocessing["symmetrise"] or None,
        params.repeats,
        params.preprocessing["min_class_count"],
        params.preprocessing["remove_isolated"],
    )
    io.write_json(snakemake.output.json, [statement.to_json() for statement in statements])
    io.write_text(snakemake.output.page, render_pages(statements))


job.run(snakemake, main)
