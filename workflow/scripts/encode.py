"""Train the encoders of a block of seeds."""

from graphdp import io, job, methods
from graphdp.methods.block import Block


def main(snakemake):
    job.set_threads(snakemake.threads)
    block = Block.of_job(snakemake)
    encoders = methods.load(block.method).encode(block, snakemake.params.settings)
    io.save_npz(snakemake.output.encoders, **encoders)
    io.write_json(snakemake.output.usage, job.usage())


job.run(snakemake, main)
