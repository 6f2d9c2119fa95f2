# Names of files, and small helpers that the stages share.


wildcard_constraints:
    study=STUDY.study,
    dataset="|".join(map(re.escape, DATASETS)),
    stage=r"(?!attacks/)[a-z_]+",  # attacks have a rule of their own
    place=r"[^/]+/.+",
    block=r"[0-9]+-[0-9]+",
    suffix=r"[a-z]+",


# Where everything is made; of a private release all but what is released, which stands in results/.
PRIVATE = STUDY.release == "private"
WORK = private.FOLDER if PRIVATE else "results"
RESULTS = f"{WORK}/{STUDY.study}"
CACHE = f"{WORK}/cache"
try:
    lock.check_folders(RESULTS, CACHE, f"{WORK}/data/graphs", f"results/{STUDY.study}")
except GraphDPError as error:
    raise WorkflowError(f"{error}") from None
ENVIRONMENT = "../envs/graphdp.yaml"


def growing(amount):
    """What a job asks for, MiB of memory or minutes: twice as much at each retry."""
    return lambda wildcards, attempt: amount * 2 ** (attempt - 1)


def graph_file(dataset):
    return f"{WORK}/data/graphs/{dataset}.npz"


def manifest_file(dataset):
    """Of a dataset's raw files."""
    return f"{WORK}/data/raw/{dataset}/manifest.json"


def unavailable():
    """Datasets that `missing_data: skip` leaves out, with the reason."""
    if STUDY.missing_data == "fail":
        return {}
    return {
        # The same words for all, so that a figure can name them together.
        dataset: "not downloaded, see its log in results/data/logs/download"
        for dataset, spec in DATASETS.items()
        if spec.files  # a generated graph is always there
        and not os.path.exists(manifest_file(dataset))
    }


UNAVAILABLE = unavailable()
GRID = Grid(
    STUDY,
    [dataset for dataset in STUDY.datasets if dataset not in UNAVAILABLE],
    bundled(Path(RESULTS)),
)


FINISHED = finished_blocks(Path(RESULTS, "fit"))
FINISHED_ATTACKS = finished_blocks(Path(RESULTS, "attacks"))


def script_code(script, *entries):
    """A parameter: digest of a script and of the library code that it reaches.

    entries: code that it finds by name, "module:function".
    """
    return code.digest(f"workflow/scripts/{script}.py", *entries)


# What a study makes, and what that is made from.


def rows_file():
    return f"{RESULTS}/rows.csv"


def attack_rows_file():
    return f"{RESULTS}/attacks.csv" if STUDY.attacks else []


def report_file():
    return f"{RESULTS}/report.html"


def table_files():
    return expand(
        f"{RESULTS}/tables/{{table}}.{{kind}}",
        table=STUDY.tables,
        kind=["csv", "md", "tex"],
    )


def figure_files():
    return expand(
        f"{RESULTS}/figures/{{figure}}.{{kind}}",
        figure=STUDY.figures,
        kind=["svg", "png"],
    )


def known_blocks(cell):
    """The blocks of a cell whose rows are taken over from `known_rows`."""
    return KNOWN.blocks(cell, STUDY) if KNOWN else []


def trained(cell):
    """Of every block of a cell that is trained here: what its job makes, the rows' file, the block."""
    return [
        [*result("fit", cell.path, block), block]
        for block in GRID.trained(cell, FINISHED, known_blocks(cell))
    ]


def cells_with_models():
    """All cells, but with `train: false` only those that known rows are of."""
    return [cell for cell in GRID.cells if STUDY.train or known_blocks(cell)]


def attacked_cells():
    """All attacked cells, but with `train: false` only those that known rows are of."""
    return [cell for cell in GRID.attacked if STUDY.train or known_blocks(cell)]


def result(stage, place, block):
    """Of a unit of a stage: what its job makes, and the file with the unit's result."""
    return [f"{RESULTS}/{path}" for path in GRID.result(stage, place, block)]


def datasets_with_models():
    return list(dict.fromkeys(cell.dataset for cell in cells_with_models()))


def calibration_folder(dataset):
    return f"{RESULTS}/calibrations/{dataset}"


def statements_folders():
    return [f"{RESULTS}/statements/{dataset}" for dataset in datasets_with_models()]


def preprocessing(dataset):
    """What was done to a dataset's graph, as its registry entry or definition says."""
    return DATASETS[dataset].preprocessing.model_dump()


def published_files():
    """The numbers that the paper prints and the orderings that it claims."""
    names = [STUDY.paper, "orderings"] if STUDY.paper else []
    return [f"config/published/{name}.csv" for name in names]


# Calibration.


def calibrated_cells(dataset):
    """The cells of a dataset whose noise is calibrated: those with models, and attacked ones."""
    return [
        cell
        for cell in cells_with_models() + attacked_cells()
        if cell.dataset == dataset
    ]


def analyses_code(dataset):
    """Code that calibration finds by name: the analyses of a dataset's methods, and their words."""
    methods = sorted({cell.method for cell in calibrated_cells(dataset)})
    return [
        name
        for method in methods
        for name in (card(method).analyses, registry.cards_code(method))
    ]


# Stages.


def units_of(wildcards):
    """What a job of a stage works on: one unit, or those of a bundle."""
    if "suffix" in wildcards.keys():
        return [GRID.unit(wildcards.stage, wildcards.place)]
    return GRID.members(wildcards.stage, wildcards.place)


def stage_inputs(wildcards):
    units = units_of(wildcards)
    reads = [
        result(stage, place, wildcards.block)[0] for stage, place in read_by(units)
    ]
    inputs = {
        "graph": graph_file(units[0].dataset),
        "results": list(dict.fromkeys(reads)),
    }
    if PRIVATE:  # the raw files stand in the ledger
        inputs["manifest"] = manifest_file(units[0].dataset)
    return inputs


def stage_tasks(wildcards):
    """What determines each unit's result, and the files that it reads and writes."""
    tasks = []
    for unit in units_of(wildcards):
        files = {
            stage: [result(stage, place, wildcards.block)[1] for place in places]
            for stage, places in GRID.reads(unit).items()
        }
        output = result(unit.stage.name, unit.place, wildcards.block)[1]
        tasks.append(GRID.task(unit) | {"files": files, "output": output})
    return tasks


def stage_sealed(wildcards):
    """Digests of what determines a job's result, and the results that it reads, for their seals."""
    units = units_of(wildcards)
    read = {}
    for stage, place in read_by(units):
        unit, block = GRID.unit(stage, place), wildcards.block
        bundle = GRID.bundle(unit)
        made_by = GRID.members(stage, bundle) if bundle else [unit]
        read[result(stage, place, block)[0]] = made_of(made_by)
    return {"own": made_of(units), "read": read}


def made_of(units):
    return seals.digest([GRID.task(unit) for unit in units])


def read_by(units):
    """The (stage, place) of what units read."""
    reads = [GRID.reads(unit).items() for unit in units]
    return dict.fromkeys(
        (stage, place) for its in reads for stage, places in its for place in places
    )


def stage_code(wildcards):
    units = units_of(wildcards)
    entries = dict.fromkeys(name for unit in units for name in GRID.code(unit))
    return script_code("stage", *entries)


def stage_kept(wildcards):
    """Where calibrations are kept, for stages that draw noise; and what the ledger is told."""
    units = units_of(wildcards)
    if not any(unit.calibrated for unit in units):
        return None
    return KEPT | (released_with(units[0].dataset) if PRIVATE else {})


def trains(wildcards):
    return units_of(wildcards)[0].stage.trains


# Attacks.


def attacked(wildcards):
    return GRID.attacked_cell(wildcards.place)


def attacks_taken_over():
    """What is taken over of known attacks, for `known_rows.known_attacks`."""
    return [
        {
            "attack": cell.experiment,
            **GRID.attack_task(cell),
            "calibration": f"{cell.name}.json",
            "seeds": [job.block_seeds(block) for block in known_blocks(cell)],
        }
        for cell in GRID.attacked
        if known_blocks(cell)
    ]


def attacked_files(wildcards):
    inputs = {
        "attacks": [
            f"{RESULTS}/attacks/{cell.path}/{block}.csv"
            for cell in GRID.attacked
            for block in GRID.trained(cell, FINISHED_ATTACKS, known_blocks(cell))
        ]
    }
    if taken := [cell.dataset for cell in GRID.attacked if known_blocks(cell)]:
        inputs["known"] = KNOWN.files("attacks")
        inputs["calibrations"] = [
            calibration_folder(name) for name in dict.fromkeys(taken)
        ]
    return inputs


# Rows and artefacts.


def taken_over():
    """What is taken over of known rows, for `known_rows.known_models`."""
    return [
        {
            "block": GRID.block(cell),
            "settings": list(cell.settings),
            "calibration": f"{cell.name}.json",
            "seeds": [job.block_seeds(block) for block in known_blocks(cell)],
        }
        for cell in GRID.cells
        if known_blocks(cell)
    ]


def collected_files(wildcards):
    datasets = datasets_with_models()
    inputs = {
        "models": [made for cell in GRID.cells for made, _, _ in trained(cell)],
        "statistics": [
            f"{WORK}/data/graphs/{dataset}.json"
            for dataset in STUDY.datasets
            if dataset not in UNAVAILABLE
        ],
        "calibrations": [calibration_folder(dataset) for dataset in datasets],
        # No rows without the statements of their models.
        "statements": statements_folders(),
    }
    if KNOWN:
        inputs["known"] = KNOWN.files("models")
        inputs["graphs"] = [graph_file(dataset) for dataset in datasets]
    return inputs


def collected_models():
    """The files of the models that are trained here, each with what must stand in it."""
    return [
        {
            "file": file,
            "block": GRID.block(cell),
            "settings": list(cell.settings),
            "seeds": job.block_seeds(block),
        }
        for cell in GRID.cells
        for _, file, block in trained(cell)
    ]


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

    return script_code("audit_claim", home(wildcards.claim))


# A private release.


def released_file():
    return f"results/{STUDY.study}/statement.json"


def released_unit():
    """The one model of a private study: its cell, what its job makes, and the row's file."""
    (cell,), (block,) = GRID.cells, GRID.blocks([])
    return cell, *result("fit", cell.path, block)


def released_model(wildcards):
    cell, made, _ = released_unit()
    return {"row": made, "statements": f"{RESULTS}/statements/{cell.dataset}"}


def released_with(dataset):
    """What all jobs of the release are made with, and the files of the data."""
    units = list(GRID.units.values())
    stages_code = {
        f"{unit.stage.name} {unit.place}": script_code("stage", *GRID.code(unit))
        for unit in units
    }
    return {
        "graph": graph_file(dataset),
        "manifest": manifest_file(dataset),
        "code": stages_code | {"preprocess": script_code("preprocess")},
        "parameters": [GRID.task(unit) for unit in units],
    }
