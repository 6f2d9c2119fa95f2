"""Keep at most D out-edges per node, once per seed; stored as packed bits."""

from graphdp import degree, job
from graphdp.data.graph import Graph
from graphdp.rng import stream_seed


def main(snakemake):
    graph, names = Graph.load(snakemake.input.graph), snakemake.wildcards
    max_degree = int(names.max_degree)
    masks = {
        seed: degree.bound_out_degree(
            graph.indptr,
            graph.indices,
            max_degree,
            stream_seed(snakemake.params.study_seed, seed, names.dataset, "degree", max_degree),
        )
        for seed in job.block_seeds(names.block)
    }
    degree.save_masks(snakemake.output[0], masks, max_degree=max_degree, graph=graph.fingerprint())


job.run(snakemake, main)
