"""Every attacked model of the study, one row each."""

from pathlib import Path

from graphdp.paper.attack import collect_attacks
from graphdp.workflow import job, known_rows


def main(snakemake):
    files, known = snakemake.input, None
    if snakemake.params.known:
        folders = {Path(folder).name: Path(folder) for folder in files.calibrations}
        graphs = {Path(path).stem: path for path in files.graphs}
        known = known_rows.known_attacks(files.known, snakemake.params.known, graphs, folders)
    collect_attacks(list(files.get("attacks", [])), snakemake.output[0], known)


job.run(snakemake, main)
