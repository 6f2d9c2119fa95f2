# Raw files -> one preprocessed graph per dataset, shared by all studies.


rule download:
    output:
        MADE.manifest_file("{dataset}"),
    log:
        f"{WORK}/data/logs/download/{{dataset}}.log",
    localrule: True  # the one that needs the network
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=growing(120),
    params:
        spec=lambda wildcards: DATASETS[wildcards.dataset].model_dump_json(
            include={"name", "title", "loader", "files", "by_hand"}
        ),
        code=script_code("download"),
    script:
        "../workflow/scripts/download.py"


rule preprocess:
    input:
        raw_files,
    output:
        graph=f"{WORK}/data/graphs/{{dataset}}.npz",
        statistics=f"{WORK}/data/graphs/{{dataset}}.json",
    log:
        f"{WORK}/data/logs/preprocess/{{dataset}}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(STUDY.memory_mb + 1500),
        runtime=growing(60),
    params:
        spec=lambda w: MADE.graph_spec(w.dataset),
        sealed=lambda w: {"own": MADE.graph_made_of(w.dataset)},
        code=script_code("preprocess"),
    script:
        "../workflow/scripts/preprocess.py"
