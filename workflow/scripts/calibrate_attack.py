"""The noise of the models that an attack trains, which have training nodes of their own number."""

from graphdp import io, job, methods
from graphdp.attacks.nodes import members_per_class
from graphdp.data.graph import Graph
from graphdp.privacy.cells import calibrate_cell


def main(snakemake):
    graph, names, params = Graph.load(snakemake.input.graph), snakemake.wildcards, snakemake.params
    plan_settings = methods.load(names.method).plan_settings(names.level, params.setting)
    entries = calibrate_cell(
        names.dataset,
        names.method,
        names.level,
        names.epsilon,
        [plan_settings],
        [int(members_per_class(graph.y, params.nodes_per_class).sum())],
        graph.num_edges,
        params.delta,
        params.calibrate_for,
        graph.num_nodes,
    )
    io.write_json(snakemake.output[0], entries)


job.run(snakemake, main)
