# The chain: download and preprocess -> bound degrees -> calibrate noise -> aggregate privately
# -> train per method x ε x seeds -> tables, figures, report. `snakemake --cores all` runs the
# study of config/config.yaml (the demo); `--configfile config/papers/<paper>.yaml` a paper.
from snakemake.utils import min_version

min_version("9.0")

import os
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.io import IOFile

# Elsewhere, or as a module, locks and secrets would not be held: Snakemake leaves `onstart` out.
HERE = Path(workflow.current_basedir.get_path_or_uri(secret_free=True))
if HERE.resolve() != Path.cwd().resolve():
    raise WorkflowError(
        "this workflow runs in a clone of its repository, not as a module nor in another folder: "
        "git clone it, then cd there && make demo (docs/installation.md)"
    )
# The library need not be installed: here it is found in workflow/, by a script beside itself.
sys.path.insert(0, str(HERE / "workflow"))

from graphdp.errors import GraphDPError

try:
    # The methods' folders are read with these.
    from graphdp import private, repeated_keys, seals
    from graphdp.methods import registry
    from graphdp.workflow import (
        asked,
        code,
        job,
        lock,
        orphans,
        preflight,
        released_data,
        stages,
    )
    from graphdp.workflow.made import Made
except GraphDPError as error:
    raise WorkflowError(f"{error}") from None

# Processes that jobs start get the whole configuration in one.
if not (workflow.overwrite_configfiles or "study" in config):

    configfile: "config/config.yaml"


try:
    # Not workflow.cores, which is an error where a profile of a cluster gives none.
    job.check_cores(workflow.resource_settings.cores)
    for path in workflow.overwrite_configfiles or ["config/config.yaml"]:
        repeated_keys.check(path)
    prepared = preflight.prepare(config)
    STUDY, DATASETS, KNOWN = prepared.study, prepared.datasets, prepared.known
    if STUDY.release == "private":
        private.check_published(STUDY.study)
except GraphDPError as error:
    raise WorkflowError(f"{error}") from None

# How a job runs, as opposed to what it computes: read by the scripts from the config and not from
# their params, so that another device or mirror is no reason to run anything again.
for name in ("mirror", "device", "memory_mb"):
    config[name] = getattr(STUDY, name)
config["command"] = job.command()
# The secret of a private release: where its key is, which the scripts read.
for name in ("release", "key_file", "study_seed"):
    config[name] = getattr(STUDY, name)


# Runs before the first job; not in dry runs, nor in the processes that cluster jobs start.
onstart:
    try:
        lock.hold(".snakemake/graphdp.lock")
        released_data.check_not_released(
            MADE
        )  # by a private run since this one looked
        lock.check_writable(MADE.results)
        preflight.check_mirror(STUDY)
        preflight.check_links(STUDY, workflow.local_exec)
        if left := orphans.cancel(Path.cwd()):
            print(f"cancelled Slurm jobs that a killed run left: {', '.join(left)}")
        if left := orphans.end(Path.cwd()):
            print(f"ended jobs that a killed run left: processes {', '.join(left)}")
        if MADE.private:
            private.prepare(STUDY.key_file, local=workflow.local_exec)
            # No checksums of what is in private/ among Snakemake's records.
            workflow.persistence.max_checksum_file_size = -1
    except GraphDPError as error:
        raise WorkflowError(f"{error}") from None


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/privacy.smk"
include: "rules/train.smk"
include: "rules/attack.smk"
include: "rules/paper.smk"
include: "rules/audit.smk"
include: "rules/release.smk"


rule all:
    default_target: True
    input:
        (
            MADE.released_files()
            if MADE.private
            else [
                MADE.report_file(),
                MADE.rows_file(),
                MADE.attack_rows_file(),
                MADE.table_files(),
                MADE.figure_files(),
            ]
        ),


rule report:
    input:
        MADE.report_file(),


rule tables:
    input:
        MADE.table_files(),


rule figures:
    input:
        MADE.figure_files(),


rule rows:
    input:
        MADE.rows_file(),


rule data:
    input:
        [MADE.graph_file(dataset) for dataset in STUDY.datasets],
