"""Attack a block of repeats: train target and shadow models, and infer who was trained on."""

from graphdp.attacks.attack_rows import write_rows
from graphdp.attacks.membership import AttackBlock, membership_inference
from graphdp.data.graph import Graph
from graphdp.methods.registry import card
from graphdp.releases.cache import AggregateCache
from graphdp.workflow import job, stages


def main(snakemake):
    job.set_threads(snakemake.threads)
    task = snakemake.params.task
    block = AttackBlock.of_repeats(
        job.block_seeds(snakemake.wildcards.block),
        task["nodes_per_class"],
        graph=Graph.load(snakemake.input.graph),
        device=snakemake.config["device"],
        memory_mb=snakemake.config["memory_mb"],
        **task["block"],
    )
    block = stages.calibrated(block, task["noise"] | snakemake.params.kept)
    cache = AggregateCache(snakemake.params.cache)
    outcomes = membership_inference(block, card(block.method), task["setting"], cache)
    write_rows(snakemake.output[0], block, task["setting"], outcomes)


job.run(snakemake, main)
