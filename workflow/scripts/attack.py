"""Attack a block of repeats: train target and shadow models, and infer who was trained on."""

from graphdp import io, job, methods
from graphdp.aggregation import AggregateCache
from graphdp.attacks.membership import AttackBlock, membership_inference
from graphdp.attacks.rows import write_rows
from graphdp.data.graph import Graph


def main(snakemake):
    job.set_threads(snakemake.threads)
    names, params = snakemake.wildcards, snakemake.params
    block = AttackBlock.of_repeats(
        job.block_seeds(names.block),
        params.nodes_per_class,
        graph=Graph.load(snakemake.input.graph),
        dataset=names.dataset,
        method=names.method,
        level=names.level,
        epsilon=names.epsilon,
        study_seed=params.study_seed,
        device=snakemake.config["device"],
        memory_mb=snakemake.config["memory_mb"],
        calibrations=io.read_json(snakemake.input.calibration),
    )
    method, cache = methods.load(names.method), AggregateCache(params.cache)
    outcomes = membership_inference(block, method, params.setting, cache)
    write_rows(snakemake.output[0], names.study, block, method, params.setting, outcomes)


job.run(snakemake, main)
