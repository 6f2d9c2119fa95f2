"""Train the embeddings of a block of seeds and release each one's noisy matrix, once."""

from graphdp import io, job, methods
from graphdp.methods.block import Block


def main(snakemake):
    job.set_threads(snakemake.threads)
    block = Block.of_job(snakemake)
    embeddings = methods.load(block.method).embed(block, snakemake.params.settings)
    io.save_npz(snakemake.output.embeddings, **embeddings)
    io.write_json(snakemake.output.usage, job.usage())


job.run(snakemake, main)
