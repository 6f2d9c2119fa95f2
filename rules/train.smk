# Training: one job per dataset x method x level x ε x experiment x block of seeds.


rule encode:
    input:
        graph="results/data/graphs/{dataset}.npz",
        calibration=encoder_calibration,
    output:
        encoders=f"results/{{study}}/encoders/{BLOCK}.npz",
        usage=f"results/{{study}}/encoders/{BLOCK}.json",
    log:
        f"results/{{study}}/logs/encode/{BLOCK}.log",
    conda:
        ENVIRONMENT
    threads: STUDY.threads
    resources:
        gpu=STUDY.gpu,
        mem_mb=STUDY.memory_mb + 1500,
    params:
        settings=lambda wildcards: GRID.encoder_settings(cell_path(wildcards)),
        study_seed=STUDY.study_seed,
        split=split_rule,
        checkpoint=STUDY.checkpoint,
        code=script_code("encode", stage="encode"),
    script:
        "../workflow/scripts/encode.py"


rule aggregate:
    input:
        graph="results/data/graphs/{dataset}.npz",
        calibration=calibration_file,
        encoders=lambda wildcards: f"{encoder_stem(wildcards)}.npz",
        bounded=bounded_files,
    output:
        f"results/{{study}}/aggregates/{BLOCK}.json",
    log:
        f"results/{{study}}/logs/aggregate/{BLOCK}.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=STUDY.memory_mb + 1500,
    params:
        settings=lambda wildcards: GRID.release_settings(cell_path(wildcards)),
        study_seed=STUDY.study_seed,
        split=split_rule,
        checkpoint=STUDY.checkpoint,
        cache="results/cache/aggregates",
        code=script_code("aggregate", stage="aggregate"),
    script:
        "../workflow/scripts/aggregate.py"


rule embed:
    input:
        graph="results/data/graphs/{dataset}.npz",
        calibration=calibration_file,
    output:
        embeddings=f"results/{{study}}/embeddings/{BLOCK}.npz",
        usage=f"results/{{study}}/embeddings/{BLOCK}.json",
    log:
        f"results/{{study}}/logs/embed/{BLOCK}.log",
    conda:
        ENVIRONMENT
    threads: STUDY.threads
    resources:
        gpu=STUDY.gpu,
        mem_mb=STUDY.memory_mb + 1500,
    params:
        settings=lambda wildcards: GRID.release_settings(cell_path(wildcards)),
        study_seed=STUDY.study_seed,
        split=split_rule,
        checkpoint=STUDY.checkpoint,
        code=script_code("embed", stage="embed"),
    script:
        "../workflow/scripts/embed.py"


rule fit:
    input:
        unpack(fit_inputs),
        graph="results/data/graphs/{dataset}.npz",
        calibration=calibration_file,
    output:
        f"results/{{study}}/fits/{BLOCK}.csv",
    log:
        f"results/{{study}}/logs/fit/{BLOCK}.log",
    conda:
        ENVIRONMENT
    threads: STUDY.threads
    resources:
        gpu=STUDY.gpu,
        mem_mb=STUDY.memory_mb + 1500,
    params:
        settings=lambda wildcards: GRID.settings(cell_path(wildcards)),
        study_seed=STUDY.study_seed,
        split=split_rule,
        checkpoint=STUDY.checkpoint,
        cache="results/cache/aggregates",
        code=script_code("fit", stage="fit"),
    script:
        "../workflow/scripts/fit.py"


rule known:
    input:
        rows=STUDY.known_rows,
        graph="results/data/graphs/{dataset}.npz",
        calibration=calibration_file,
    output:
        f"results/{{study}}/known/{BLOCK}.csv",
    log:
        f"results/{{study}}/logs/known/{BLOCK}.log",
    conda:
        ENVIRONMENT
    params:
        settings=lambda wildcards: GRID.settings(cell_path(wildcards)),
        study_seed=STUDY.study_seed,
        split=split_rule,
        checkpoint=STUDY.checkpoint,
        code=script_code("known"),
    script:
        "../workflow/scripts/known.py"
