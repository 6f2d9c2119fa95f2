# Noise and what it is worth: one job per dataset calibrates all its cells and states what they
# release. Jobs that draw noise do not wait for it: they calibrate their own cell, or find it among
# what is kept (`results/cache/calibrations`, by plan, ε and δ), and name all that it depends on in
# their own parameters. So a further ε trains just that, and another δ all that has noise.

KEPT = {
    "cache": f"{MADE.cache}/calibrations",
    "accounting": code.digest(None, *stages.ACCOUNTING),
}


rule calibrate:
    input:
        unpack(calibration_inputs),
    output:
        calibrations=directory(f"{WORK}/{{study}}/calibrations/{{dataset}}"),
        statements=directory(f"{WORK}/{{study}}/statements/{{dataset}}"),
    log:
        f"{WORK}/{{study}}/logs/calibrate/{{dataset}}.log",
    priority: 1  # what it keeps, others need not make
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(STUDY.memory_mb + 1500),
        runtime=growing(60),
    params:
        study=lambda w: MADE.calibrations_of(w.dataset),
        sealed=lambda w: {"own": MADE.calibrations_made_of(w.dataset)},
        kept=KEPT,
        code=lambda w: script_code("calibrate", *MADE.analyses_code(w.dataset)),
    script:
        "../workflow/scripts/calibrate.py"
