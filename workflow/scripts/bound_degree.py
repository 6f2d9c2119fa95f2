"""Keep at most D out-edges (and in-edges, if asked) per node, once per seed, as packed bits."""

from graphdp import degree, job
from graphdp.data.graph import Graph
from graphdp.rng import stream_seed


def main(snakemake):
    graph, names = Graph.load(snakemake.input.graph), snakemake.wildcards
    max_degree, how = degree.parse_bound(names.bound)
    edges = graph.indptr, graph.indices, max_degree

    def keep(seed):
        if how in ("sampling", "both"):
            study = snakemake.params.study_seed
            stream = stream_seed(study, seed, names.dataset, "degree", max_degree)
            sampled = degree.bound_out_degree if how == "sampling" else degree.bound_degrees
            return sampled(*edges, stream)
        # Public, so not derived from the study seed, which the noise depends on.
        order = stream_seed("public candidates", names.dataset, seed)
        return degree.public_candidates(*edges, order, graph.node_ids, graph.raw_num_nodes)

    masks = {seed: keep(seed) for seed in job.block_seeds(names.block)}
    degree.save_masks(snakemake.output[0], masks, bound=names.bound, graph=graph.fingerprint())


job.run(snakemake, main)
