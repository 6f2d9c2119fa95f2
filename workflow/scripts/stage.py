"""One stage of a method, for a block of seeds and all settings of a cell or of several."""

from graphdp.data.graph import Graph
from graphdp.keys import root
from graphdp.methods.block import Block
from graphdp.workflow import job, stages


def main(snakemake):
    params, graph = snakemake.params, Graph.load(snakemake.input.graph)
    secret = root(snakemake.config)
    # Other threads round other sums; Snakemake's --set-threads has no say in a private release.
    job.set_threads(1 if secret else snakemake.threads)
    for task in params.tasks:
        block = Block(
            graph=graph,
            seeds=job.block_seeds(snakemake.wildcards.block),
            device=snakemake.config["device"],
            memory_mb=snakemake.config["memory_mb"],
            secret=secret,
            **task["block"],
        )
        if task["noise"]:
            known = task["noise"] | params.kept
            block = stages.calibrated(block, known | {"key_file": snakemake.config["key_file"]})
        stages.run_stage(task, block, params.cache)
        job.lap()


job.run(snakemake, main)
