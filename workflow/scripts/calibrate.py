"""The smallest noise multiplier for each plan of a cell, with every accountant's value."""

from graphdp import io, job
from graphdp.data.graph import Graph
from graphdp.privacy.cells import calibrate_cell, split_of


def main(snakemake):
    graph, names, params = Graph.load(snakemake.input.graph), snakemake.wildcards, snakemake.params
    where = graph.raw_num_nodes, graph.node_ids, params.study_seed, params.split
    entries = calibrate_cell(
        names.dataset,
        names.method,
        names.level,
        names.epsilon,
        params.settings,
        [split_of(*where, seed).train.size for seed in range(params.seeds)],
        graph.num_edges,
        params.delta,
        params.calibrate_for,
        graph.num_nodes,
    )
    io.write_json(snakemake.output[0], entries)


job.run(snakemake, main)
