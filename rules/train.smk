# Stages of methods: one job per stage x place x block of seeds. A place is a cell (dataset, method,
# level, ε, experiment) or what several cells share; with `cell_block` several cells of a method are
# a bundle with a job of its own. The methods' cards say what a stage reads, what of a setting
# determines it and what it needs; nothing here knows a method.


rule stage:
    input:
        unpack(stage_inputs),
    output:
        f"{WORK}/{{study}}/{{stage}}/{{place}}/{{block}}.{{suffix}}",
    log:
        f"{WORK}/{{study}}/logs/{{stage}}/{{place}}/{{block}}.{{suffix}}.log",
    conda:
        ENVIRONMENT
    threads: lambda w: STUDY.threads if trains(w) else 1
    resources:
        gpu=lambda w: STUDY.gpu if trains(w) else 0,
        mem_mb=growing(STUDY.memory_mb + 1500),
        runtime=growing(60),
    params:
        tasks=stage_tasks,
        sealed=stage_sealed,
        kept=stage_kept,
        cache=f"{MADE.cache}/aggregates",
        code=stage_code,
    script:
        "../workflow/scripts/stage.py"


use rule stage as bundle with:
    output:
        directory(f"{WORK}/{{study}}/{{stage}}/bundles/{{place}}/{{block}}"),
    log:
        f"{WORK}/{{study}}/logs/{{stage}}/bundles/{{place}}/{{block}}.log",
