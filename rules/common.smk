# What the rules share: the study's files are `MADE`'s (graphdp.workflow.made), by its names.


wildcard_constraints:
    study=STUDY.study,
    dataset="|".join(map(re.escape, DATASETS)),
    stage=r"(?!attacks/)[a-z_]+",  # attacks have a rule of their own
    place=r"[^/]+/.+",
    block=r"[0-9]+-[0-9]+",
    suffix=r"[a-z]+",


MADE = Made(prepared)
GRID, WORK = MADE.grid, MADE.work
try:
    lock.check_folders(
        MADE.results, MADE.cache, f"{WORK}/data/graphs", f"results/{STUDY.study}"
    )
    if workflow.is_main_process:  # which sees the mirror
        preflight.check_raw(STUDY, DATASETS, MADE.raw_folder)
        released_data.check_not_released(MADE)
except GraphDPError as error:
    raise WorkflowError(f"{error}") from None
ENVIRONMENT = "../envs/graphdp.yaml"


def growing(amount):
    """What a job asks for, MiB of memory or minutes: twice as much at each retry."""
    return lambda wildcards, attempt: amount * 2 ** (attempt - 1)


def script_code(script, *entries):
    """A parameter: digest of a script and of the library code that it reaches.

    entries: code that it finds by name, "module:function".
    """
    return code.digest(f"workflow/scripts/{script}.py", *entries)


def of_this_study(path, made_of):
    """A result that a rule makes, if it is there, is what `made_of` says. Snakemake finds that out
    by its records; where it has none, as when .snakemake/ was deleted, it would take it as done.

    Ends the process: of a file that is there Snakemake passes over why no job can make it.
    """
    records = workflow.persistence
    if not os.path.exists(path) or records.metadata(IOFile(path, None)):
        return
    # Older Snakemakes cannot say what a killed run left at work; nothing is refused there.
    at_work = getattr(records, "_filter_incomplete_keys", set)
    # That is made again, whatever it is, and everything if it is asked for.
    if at_work([path]) or workflow.dag_settings.forceall:
        return
    try:
        seals.check_made_of(path, made_of)
    except GraphDPError as error:
        sys.exit(
            f"WorkflowError:\n{error} (all that is so: delete {MADE.results} and run again)"
        )


# Data.


def raw_files(wildcards):
    dataset = wildcards.dataset
    of_this_study(MADE.graph_file(dataset), MADE.graph_made_of(dataset))
    return MADE.manifest_file(dataset)


# Stages: of a job, what its wildcards name.


def units_of(wildcards):
    """What a job of a stage works on: one unit, or those of a bundle."""
    if "suffix" in wildcards.keys():
        return [GRID.unit(wildcards.stage, wildcards.place)]
    return GRID.members(wildcards.stage, wildcards.place)


def stage_inputs(wildcards):
    units, block = units_of(wildcards), wildcards.block
    dataset, place = units[0].dataset, units[0].place
    made, _ = MADE.result(wildcards.stage, place, block)
    of_this_study(made, MADE.made_of(units))
    inputs = {
        "graph": MADE.graph_file(dataset),
        "results": list(MADE.read(units, block)),
    }
    if MADE.private:  # the raw files stand in the ledger
        inputs["manifest"] = MADE.manifest_file(dataset)
    return inputs


def stage_tasks(wildcards):
    return MADE.tasks(units_of(wildcards), wildcards.block)


def stage_sealed(wildcards):
    """Digests of what determines a job's result, and the results that it reads, for their seals."""
    units = units_of(wildcards)
    dataset = units[0].dataset
    read = {MADE.graph_file(dataset): MADE.graph_made_of(dataset)}
    return {
        "own": MADE.made_of(units),
        "read": read | MADE.read(units, wildcards.block),
    }


def stage_code(wildcards):
    units = units_of(wildcards)
    entries = dict.fromkeys(name for unit in units for name in GRID.code(unit))
    return script_code("stage", *entries)


def stage_kept(wildcards):
    """Where calibrations are kept, for stages that draw noise; and what the ledger is told."""
    units = units_of(wildcards)
    if not any(unit.calibrated for unit in units):
        return None
    return KEPT | (released_with(units[0].dataset) if MADE.private else {})


def calibration_inputs(wildcards):
    dataset = wildcards.dataset
    for made in (MADE.calibration_folder(dataset), MADE.statements_folder(dataset)):
        of_this_study(made, MADE.calibrations_made_of(dataset))
    return {"graph": MADE.graph_file(dataset)}


def trains(wildcards):
    return units_of(wildcards)[0].stage.trains


# Attacks, rows and artefacts.


def attacked(wildcards):
    return GRID.attacked_cell(wildcards.place)


def attack_inputs(wildcards):
    cell = attacked(wildcards)
    made = MADE.attack_file(cell, wildcards.block)
    of_this_study(made, MADE.attack_made_of(cell))
    return {"graph": MADE.graph_file(cell.dataset)}


def attack_sealed(wildcards):
    """As `stage_sealed`."""
    cell = attacked(wildcards)
    graph, made_of = MADE.graph_file(cell.dataset), MADE.graph_made_of(cell.dataset)
    return {"own": MADE.attack_made_of(cell), "read": {graph: made_of}}


def attacked_files(wildcards):
    known = [cell.dataset for cell in GRID.attacked if MADE.known_blocks(cell)]
    taken = list(dict.fromkeys(known))
    for dataset in taken:  # as in `collected_files`
        of_this_study(MADE.graph_file(dataset), MADE.graph_made_of(dataset))
    of_this_study(str(MADE.attack_rows_file()), MADE.attacks_made_of())
    inputs = {"attacks": list(MADE.collected_attacks_made_of())}
    if taken:
        inputs["known"] = MADE.known_files("attacks")
        inputs["graphs"] = [MADE.graph_file(dataset) for dataset in taken]
        inputs["calibrations"] = [MADE.calibration_folder(name) for name in taken]
    return inputs


def collected_files(wildcards):
    datasets = MADE.datasets_with_models()
    for dataset in datasets:  # before the rows, which are of another one if it is
        of_this_study(MADE.graph_file(dataset), MADE.graph_made_of(dataset))
    of_this_study(MADE.rows_file(), MADE.rows_made_of())
    inputs = {
        "models": list(MADE.collected_made_of()),
        "statistics": [MADE.statistics_file(dataset) for dataset in MADE.available()],
        "calibrations": [MADE.calibration_folder(dataset) for dataset in datasets],
        # No rows without the statements of their models.
        "statements": MADE.statements_folders(),
    }
    if KNOWN:
        inputs["known"] = MADE.known_files("models")
        inputs["graphs"] = [MADE.graph_file(dataset) for dataset in datasets]
    return inputs


# Audits.


def claim_files(wildcards):
    # Imported where it is asked for: all claims' plans are not needed at every start.
    from graphdp.audit.claims import claims

    return expand("results/audit/{claim}.json", claim=claims())


def factors_file(wildcards):
    """What the audits' table shows of each claim's detectable factor."""
    from graphdp.audit.detectable import FILE

    return os.path.relpath(FILE)


def claim_draws(wildcards):
    """Runs per world of the cheapest attacks; the dear ones take a share of it."""
    from graphdp.audit.claims import DRAWS

    return DRAWS


def claim_code(wildcards):
    """The claim, which the script finds by name in its method's folder."""
    from graphdp.audit.claims import home

    try:
        return script_code("audit_claim", home(wildcards.claim))
    except GraphDPError as error:  # raised, it would stand above a traceback
        sys.exit(f"WorkflowError:\n{error}")


# A private release.


def released_model(wildcards):
    cell, made, _ = MADE.released_unit()
    return {"row": made, "statements": MADE.statements_folder(cell.dataset)}


def released_with(dataset):
    """What all jobs of the release are made with, and the files of the data."""
    units = list(GRID.units.values())
    stages_code = {
        f"{unit.stage.name} {unit.place}": script_code("stage", *GRID.code(unit))
        for unit in units
    }
    return {
        "graph": MADE.graph_file(dataset),
        "manifest": MADE.manifest_file(dataset),
        "code": stages_code | {"preprocess": script_code("preprocess")},
        "parameters": [GRID.task(unit) for unit in units],
    }
