"""Release the noisy aggregates of a block of seeds, or find them in the cache."""

from graphdp import degree, io, job, methods
from graphdp.aggregation import AggregateCache
from graphdp.methods.block import Block


def main(snakemake):
    block = Block.of_job(snakemake)
    encoders = io.load_npz(snakemake.input.encoders)
    masks = degree.load_bounds(snakemake.input.bounded, graph=block.graph.fingerprint())
    cache = AggregateCache(snakemake.params.cache)
    releases = methods.load(block.method).aggregate(
        block, snakemake.params.settings, encoders, masks, cache
    )
    io.write_json(snakemake.output[0], {"releases": releases, "usage": job.usage()})


job.run(snakemake, main)
