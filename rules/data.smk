# Raw files -> one preprocessed graph per dataset, shared by all studies.


rule download:
    output:
        "results/data/raw/{dataset}/manifest.json",
    log:
        "results/data/logs/download/{dataset}.log",
    conda:
        ENVIRONMENT
    params:
        spec=lambda wildcards: DATASETS[wildcards.dataset].model_dump_json(
            include={"name", "title", "loader", "files", "by_hand"}
        ),
    script:
        "../workflow/scripts/download.py"


rule preprocess:
    input:
        "results/data/raw/{dataset}/manifest.json",
    output:
        graph="results/data/graphs/{dataset}.npz",
        statistics="results/data/graphs/{dataset}.json",
    log:
        "results/data/logs/preprocess/{dataset}.log",
    conda:
        ENVIRONMENT
    params:
        spec=lambda wildcards: DATASETS[wildcards.dataset].model_dump_json(
            exclude={"notes", "published_statistics", "by_hand"}
        ),
        code=script_code("preprocess"),
    script:
        "../workflow/scripts/preprocess.py"
