"""Place a dataset's raw files, verified, from the mirror folder or the network."""

from pathlib import Path

from graphdp import io
from graphdp.data.datasets import DatasetSpec
from graphdp.data.download import download
from graphdp.workflow import job


def main(snakemake):
    manifest = Path(snakemake.output[0])
    spec = DatasetSpec.model_validate_json(snakemake.params.spec)
    io.write_json(manifest, download(spec, manifest.parent, mirror=snakemake.config["mirror"]))


job.run(snakemake, main)
