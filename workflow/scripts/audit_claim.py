"""One audit: the claimed ε and the lower bound on it."""

import json
import sys

from graphdp import io
from graphdp.audit import claims
from graphdp.privacy.rounding import at_least, at_most
from graphdp.workflow import job


def main(snakemake):
    job.set_threads(snakemake.threads)
    params = snakemake.params
    result = claims.run(claims.get(snakemake.wildcards.claim), params.draws, params.seed)
    if not result["as_expected"]:
        print(
            f"{result['claim']}: lower bound {at_least(result['lower_bound'], 3)} of a claimed "
            f"{at_most(result['claimed_epsilon'], 3)}, expected {result['expected']}: not as it "
            "says",
            file=sys.__stderr__,
        )
    versions = job.versions("numpy", "scipy", "torch", "autodp", "dp-accounting")
    io.write_json(snakemake.output[0], result | {"versions": json.loads(versions)})


job.run(snakemake, main)
