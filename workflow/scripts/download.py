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
    found = download(spec, manifest.parent, mirror=snakemake.config["mirror"])
    if snakemake.config["release"] != "private":
        check_files_not_released(spec, found)
    io.write_json(manifest, found)


job.run(snakemake, main)
