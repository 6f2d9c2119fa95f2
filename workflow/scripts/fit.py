"""Train the final models of a block of seeds and write one row for each."""

from graphdp import degree, io, job, methods, perturbation
from graphdp.aggregation import AggregateCache
from graphdp.methods.block import Block
from graphdp.methods.rows import write_rows


def main(snakemake):
    job.set_threads(snakemake.threads)
    block, method = Block.of_job(snakemake), methods.load(snakemake.wildcards.method)
    inputs = []
    if "aggregate" in method.STAGES:
        encoders = io.load_npz(snakemake.input.encoders)
        releases = io.read_json(snakemake.input.aggregates)["releases"]
        inputs = [encoders, releases, AggregateCache(snakemake.params.cache)]
    elif "bound_degree" in method.STAGES:
        masks = degree.load_bounds(snakemake.input.bounded, graph=block.graph.fingerprint())
        inputs = [masks, AggregateCache(snakemake.params.cache)]
    elif "embed" in method.STAGES:
        inputs = [io.load_npz(snakemake.input.embeddings)]
    if "perturb" in method.STAGES:
        fingerprint = block.graph.fingerprint()
        inputs.append(perturbation.load_files(snakemake.input.perturbed, graph=fingerprint))
    models = method.fit(block, snakemake.params.settings, *inputs)
    write_rows(snakemake.output[0], snakemake.wildcards.study, block, method, models)


job.run(snakemake, main)
