# Attacks: one job per attack x dataset x method x level x ε x block of repeats. It trains the models
# that it attacks by the methods' own stages; their noise is calibrated like everybody's.


rule attack:
    input:
        unpack(attack_inputs),
    output:
        f"{WORK}/{{study}}/attacks/{{place}}/{{block}}.csv",
    log:
        f"{WORK}/{{study}}/logs/attack/{{place}}/{{block}}.log",
    conda:
        ENVIRONMENT
    threads: STUDY.threads
    resources:
        gpu=STUDY.gpu,
        mem_mb=growing(STUDY.memory_mb + 1500),
        runtime=growing(120),
    params:
        task=lambda w: GRID.attack_task(attacked(w)),
        sealed=attack_sealed,
        kept=KEPT,
        cache=f"{MADE.cache}/aggregates",
        code=lambda w: script_code("attack", *GRID.attack_code(attacked(w))),
    script:
        "../workflow/scripts/attack.py"


rule collect_attacks:
    input:
        unpack(attacked_files),
    output:
        f"{WORK}/{{study}}/attacks.csv",
    log:
        f"{WORK}/{{study}}/logs/collect_attacks.log",
    localrule: True
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=growing(10),
    params:
        sealed=lambda w: {
            "own": MADE.attacks_made_of(),
            "read": MADE.collected_attacks_made_of(),
        },
        known=MADE.attacks_taken_over(),
        code=script_code("collect_attacks"),
    script:
        "../workflow/scripts/collect_attacks.py"
