# Attacks: one job per attack x dataset x method x level x ε x block of repeats. It trains the models
# that it attacks, by the methods' own code; their noise is calibrated like everybody's.

ATTACKED = "results/{study}/attacks"


rule calibrate_attack:
    input:
        graph="results/data/graphs/{dataset}.npz",
    output:
        f"{ATTACKED}/calibrations/{CELL}.json",
    log:
        f"results/{{study}}/logs/calibrate_attack/{CELL}.log",
    conda:
        ENVIRONMENT
    params:
        setting=lambda wildcards: GRID.attacked_cell(cell_path(wildcards)).settings[0],
        nodes_per_class=nodes_per_class,
        delta=STUDY.delta,
        calibrate_for=STUDY.calibrate_for,
        code=script_code("calibrate_attack"),
    script:
        "../workflow/scripts/calibrate_attack.py"


rule attack:
    input:
        graph="results/data/graphs/{dataset}.npz",
        calibration=f"{ATTACKED}/calibrations/{CELL}.json",
    output:
        f"{ATTACKED}/rows/{BLOCK}.csv",
    log:
        f"results/{{study}}/logs/attack/{BLOCK}.log",
    conda:
        ENVIRONMENT
    threads: STUDY.threads
    resources:
        gpu=STUDY.gpu,
        mem_mb=STUDY.memory_mb + 1500,
    params:
        setting=lambda wildcards: GRID.attacked_cell(cell_path(wildcards)).settings[0],
        nodes_per_class=nodes_per_class,
        study_seed=STUDY.study_seed,
        cache="results/cache/aggregates",
        code=method_code("attack"),
    script:
        "../workflow/scripts/attack.py"


rule collect_attacks:
    input:
        attack_row_files,
    output:
        "results/{study}/attacks.csv",
    log:
        "results/{study}/logs/collect_attacks.log",
    conda:
        ENVIRONMENT
    params:
        code=script_code("collect_attacks"),
    script:
        "../workflow/scripts/collect_attacks.py"
