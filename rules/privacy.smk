# What bounds, calibrates and states the private releases: no torch, seconds per job.


rule bound_degree:
    input:
        graph="results/data/graphs/{dataset}.npz",
    output:
        "results/{study}/bounded/{dataset}/{bound}/{block}.npz",
    log:
        "results/{study}/logs/bound_degree/{dataset}/{bound}/{block}.log",
    conda:
        ENVIRONMENT
    params:
        study_seed=STUDY.study_seed,
        code=script_code("bound_degree"),
    script:
        "../workflow/scripts/bound_degree.py"


rule perturb:
    input:
        graph="results/data/graphs/{dataset}.npz",
        calibration=calibration_file,
    output:
        f"results/{{study}}/perturbed/{BLOCK}.npz",
    log:
        f"results/{{study}}/logs/perturb/{BLOCK}.log",
    conda:
        ENVIRONMENT
    resources:
        mem_mb=STUDY.memory_mb + 1500,
    params:
        settings=lambda wildcards: GRID.release_settings(cell_path(wildcards)),
        study_seed=STUDY.study_seed,
        split=split_rule,
        checkpoint=STUDY.checkpoint,
        code=script_code("perturb", stage="perturb"),
    script:
        "../workflow/scripts/perturb.py"


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
        calibrate_for=STUDY.calibrate_for,
        split=split_rule,
        # One split serves every seed unless each seed has its own.
        seeds=STUDY.seeds if STUDY.split == "per_seed" else 1,
        study_seed=STUDY.study_seed,
        code=script_code("calibrate"),
    script:
        "../workflow/scripts/calibrate.py"


rule state:
    input:
        statistics="results/data/graphs/{dataset}.json",
        calibrations=released_calibrations,
    output:
        json=f"results/{{study}}/statements/{RELEASED}.json",
        page=f"results/{{study}}/statements/{RELEASED}.md",
    log:
        f"results/{{study}}/logs/state/{RELEASED}.log",
    conda:
        ENVIRONMENT
    params:
        tried=lambda wildcards: GRID.settings_tried(RELEASED.format(**wildcards)),
        preprocessing=lambda wildcards: preprocessing(wildcards.dataset),
        checkpoint=STUDY.checkpoint,
        repeats=STUDY.seeds,
        code=script_code("state"),
    script:
        "../workflow/scripts/state.py"
