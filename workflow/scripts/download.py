"""Place a dataset's raw files, verified, from the mirror folder or the network."""

from pathlib import Path

from graphdp import io
from graphdp.data.datasets import DatasetSpec
from graphdp.data.download import download
from graphdp.workflow import job
from graphdp.workflow.released_data import check_files_not_released


def main(snakemake):
    manifest, config = Path(snakemake.output[0]), snakemake.config
    spec = DatasetSpec.model_validate_json(snakemake.params.spec)

    def accept(sha256: str) -> None:
        if config["release"] != "private":
            check_files_not_released(spec, [sha256])

    io.write_json(manifest, download(spec, manifest.parent, config["mirror"], accept=accept))


job.run(snakemake, main)
