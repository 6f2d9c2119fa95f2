"""What tables, figures and the report need to know about a study besides its rows."""

from pathlib import Path

from graphdp import io, job
from graphdp.paper.context import study_context


def main(snakemake):
    statistics = {Path(path).stem: io.read_json(path) for path in snakemake.input.statistics}
    calibrations = [io.read_json(path) for path in snakemake.input.calibrations]
    params = {name: value for name, value in snakemake.params.items() if name != "code"}
    io.write_json(snakemake.output[0], study_context(params, statistics, calibrations))


job.run(snakemake, main)
