"""Keep at most D out-edges (and in-edges, if asked) per node, once per seed, as packed bits."""

from graphdp import degree, job
from graphdp.data.graph import Graph


def main(snakemake):
    graph, names = Graph.load(snakemake.input.graph), snakemake.wildcards
    max_degree, _ = degree.parse_bound(names.bound)
    masks = {}
    for seed in job.block_seeds(names.block):
        stream = snakemake.params.study_seed, seed, names.dataset, "degree", max_degree
        masks[seed] = degree.keep_edges(graph, names.bound, stream, (names.dataset, seed))
    degree.save_masks(snakemake.output[0], masks, bound=names.bound, graph=graph.fingerprint())


job.run(snakemake, main)
