# What bounds and calibrates the private releases: no torch, seconds per job.


rule bound_degree:
    input:
        graph="results/data/graphs/{dataset}.npz",
    output:
        "results/{study}/bounded/{dataset}/{max_degree}/{block}.npz",
    log:
        "results/{study}/logs/bound_degree/{dataset}/{max_degree}/{block}.log",
    conda:
        ENVIRONMENT
    params:
        study_seed=STUDY.study_seed,
        code=script_code("bound_degree"),
    script:
        "../workflow/scripts/bound_degree.py"


rule calibrate:
    input:
        graph="results/data/graphs/{dataset}.npz",
    output:
        f"results/{{study}}/calibrations/{CELL}.json",
    log:
        f"results/{{study}}/logs/calibrate/{CELL}.log",
    conda:
        ENVIRONMENT
    params:
        settings=lambda wildcards: GRID.plan_settings(cell_path(wildcards)),
        delta=STUDY.delta,
        split=STUDY.split,
        # One split serves every seed unless each seed has its own.
        seeds=STUDY.seeds if STUDY.split == "per_seed" else 1,
        study_seed=STUDY.study_seed,
        code=script_code("calibrate", stage="plan"),
    script:
        "../workflow/scripts/calibrate.py"
