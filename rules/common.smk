# Names of files, and small helpers that the stages share.


wildcard_constraints:
    study=STUDY.study,
    dataset=r"[A-Za-z0-9][A-Za-z0-9._-]*",
    method=r"[a-z]+",
    level=r"none|edge|node|k[0-9]+",
    epsilon=r"inf|[0-9.]+(e[+-]?[0-9]+)?",
    experiment=r"[A-Za-z0-9][A-Za-z0-9._-]*",
    bound=r"[0-9]+(-public_candidates|-both_degrees)?",
    block=r"[0-9]+-[0-9]+",


CELL = "{dataset}/{method}/{level}/{epsilon}/{experiment}"
# A selected model is chosen among the settings of all experiments.
RELEASED = "{dataset}/{method}/{level}/{epsilon}"
BLOCK = "{dataset}/{method}/{level}/{epsilon}/{experiment}/{block}"
ENVIRONMENT = "../envs/graphdp.yaml"


def graph_file(dataset):
    return f"results/data/graphs/{dataset}.npz"


def unavailable():
    """Datasets that `missing_data: skip` leaves out, with the reason."""
    if STUDY.missing_data == "fail":
        return {}
    return {
        dataset: f"not downloaded, see results/data/logs/download/{dataset}.log"
        for dataset, spec in DATASETS.items()
        if spec.files  # a generated graph is always there
        and not os.path.exists(f"results/data/raw/{dataset}/manifest.json")
    }


UNAVAILABLE = unavailable()
GRID = Grid(
    STUDY, [dataset for dataset in STUDY.datasets if dataset not in UNAVAILABLE]
)


def finished_blocks(folder):
    files = Path(f"results/{STUDY.study}/{folder}").glob("**/*-*.csv")
    return [path.stem for path in files]


FINISHED = finished_blocks("fits")
ATTACK_BLOCKS = GRID.blocks(finished_blocks("attacks"))


def cell_path(wildcards):
    return CELL.format(**wildcards)


def script_code(script, stage=""):
    """A parameter: digest of a script and of all library code that it uses.

    `stage`: the function of the job's method that the script calls.
    """

    def of_job(wildcards):
        entries = [f"graphdp.methods.{wildcards.method}:{stage}"] if stage else []
        return code.digest(f"workflow/scripts/{script}.py", *entries)

    return of_job


def split_rule(wildcards):
    return STUDY.split_rule(wildcards.dataset)


def method_code(script):
    """A parameter: as `script_code`, with the whole of the job's method."""
    return lambda wildcards: code.digest(
        f"workflow/scripts/{script}.py", f"graphdp.methods.{wildcards.method}"
    )


def nodes_per_class(wildcards):
    return STUDY.attacks[wildcards.experiment].nodes_per_class


# Inputs of the training rules.


def calibration_file(wildcards):
    return f"results/{STUDY.study}/calibrations/{cell_path(wildcards)}.json"


def encoder_stem(wildcards):
    path = GRID.encoder_path(GRID.cell(cell_path(wildcards)))
    return f"results/{STUDY.study}/encoders/{path}/{wildcards.block}"


def bounded_files(wildcards):
    return [
        f"results/{STUDY.study}/bounded/{wildcards.dataset}/{bound}/{wildcards.block}.npz"
        for bound in GRID.degree_bounds(cell_path(wildcards))
    ]


def perturbed_files(wildcards):
    if wildcards.level != "edge":
        return []
    path = f"{cell_path(wildcards)}/{wildcards.block}.npz"
    return [f"results/{STUDY.study}/perturbed/{path}"]


def encoder_calibration(wildcards):
    """Only node-level encoders are trained with noise; the others read no calibration."""
    return calibration_file(wildcards) if wildcards.level == "node" else []


def fit_inputs(wildcards):
    """What a method's last stage reads besides the graph and the calibration."""
    stages = methods.load(wildcards.method).STAGES
    inputs = {}
    if "bound_degree" in stages:
        inputs["bounded"] = bounded_files(wildcards)
    if "perturb" in stages:
        inputs["perturbed"] = perturbed_files(wildcards)
    if "embed" in stages:
        stem = f"results/{STUDY.study}/embeddings/{cell_path(wildcards)}"
        inputs["embeddings"] = f"{stem}/{wildcards.block}.npz"
    if "aggregate" not in stages:
        return inputs
    stem = f"results/{STUDY.study}/aggregates/{cell_path(wildcards)}/{wildcards.block}"
    return {"aggregates": f"{stem}.json", "encoders": f"{encoder_stem(wildcards)}.npz"}


# What a study makes, and what that is made from.


RESULTS = f"results/{STUDY.study}"
ATTACK_TABLES = ("table3",)


def rows_file():
    return f"{RESULTS}/rows.csv"


def attack_rows_file():
    return f"{RESULTS}/attacks.csv"


def table_rows(wildcards):
    """What a table is made from: attacks have rows of their own."""
    return attack_rows_file() if wildcards.table in ATTACK_TABLES else rows_file()


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


def cell_files(cell):
    """The rows of every block of a cell, trained here ("fits") or taken over ("known")."""
    known = KNOWN.blocks(cell, STUDY) if KNOWN else []
    return [
        f"{RESULTS}/{'known' if block in known else 'fits'}/{cell.path}/{block}.csv"
        for block in GRID.blocks(FINISHED, known)
        if STUDY.train or block in known
    ]


def cells_with_models():
    """All cells, but with `train: false` only those that known rows are of."""
    return [cell for cell in GRID.cells if cell_files(cell)]


def model_files(wildcards):
    return [path for cell in GRID.cells for path in cell_files(cell)]


def attack_row_files(wildcards):
    return [
        f"{RESULTS}/attacks/rows/{cell.path}/{block}.csv"
        for cell in GRID.attacked
        for block in ATTACK_BLOCKS
    ]


def calibration_files(wildcards):
    return [f"{RESULTS}/calibrations/{cell.path}.json" for cell in cells_with_models()]


def released_calibrations(wildcards):
    cells = GRID.cells_of(RELEASED.format(**wildcards))
    return [f"{RESULTS}/calibrations/{cell.path}.json" for cell in cells]


def statement_files(wildcards):
    released = dict.fromkeys(cell.released for cell in cells_with_models())
    return [f"{RESULTS}/statements/{name}.json" for name in released]


def preprocessing(dataset):
    """What was done to a dataset's graph, as its registry entry or definition says."""
    return DATASETS[dataset].preprocessing.model_dump()


def statistics_files(wildcards):
    return [
        f"results/data/graphs/{dataset}.json"
        for dataset in STUDY.datasets
        if dataset not in UNAVAILABLE
    ]


def published_files(wildcards):
    """The numbers that the paper prints and the orderings that it claims."""
    names = [STUDY.paper, "orderings"] if STUDY.paper else []
    return [f"config/published/{name}.csv" for name in names]
