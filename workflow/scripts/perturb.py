"""Draw the perturbed graphs of a block of seeds, once for all settings that read them."""

from graphdp import job, methods, perturbation
from graphdp.methods.block import Block


def main(snakemake):
    block = Block.of_job(snakemake)
    graphs = methods.load(block.method).perturb(block, snakemake.params.settings)
    perturbation.save_graphs(snakemake.output[0], graphs, graph=block.graph.fingerprint())


job.run(snakemake, main)
