"""Place a dataset's raw files, verified, from the mirror folder or the network."""

from pathlib import Path

from graphdp import io
from graphdp.data.datasets import DatasetSpec
from graphdp.data.download import download
from graphdp.workflow import job
from graphdp.workflow.preflight import check_files_not_released


def main(snakemake):
    manifest = Path(snakemake.output[0])
    spec = DatasetSpec.model_validate_json(snakemake.params.spec)

    def accept(sha256: str) -> None:
        check_files_not_released(spec, [sha256])

    mirror, private = snakemake.config["mirror"], snakemake.config["release"] == "private"
    found = download(spec, manifest.parent, mirror, accept=None if private else accept)
    if not private:  # of files that were there already
        check_files_not_released(spec, [file["sha256"] for file in found["files"]])
    io.write_json(manifest, found)


job.run(snakemake, main)
