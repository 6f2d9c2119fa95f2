# Attacks on the project's own code: one job per claim, then a table and a figure of all, and last
# whether all came out as they must. They read no dataset and belong to no study.


wildcard_constraints:
    claim=r"[a-z0-9_-]+",


rule audit_claim:
    output:
        "results/audit/{claim}.json",
    log:
        "results/audit/logs/{claim}.log",
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        draws=claim_draws,
        seed=0,
        code=claim_code,
    script:
        "../workflow/scripts/audit_claim.py"


rule audit_report:
    input:
        claims=claim_files,
        factors=factors_file,
    output:
        csv="results/audit/audit.csv",
        md="results/audit/audit.md",
        tex="results/audit/audit.tex",
        svg=report(
            "results/audit/audit.svg",
            category="Audits",
            caption="../workflow/report/audit.rst",
        ),
        png="results/audit/audit.png",
    log:
        "results/audit/logs/audit.log",
    localrule: True
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(10),
    params:
        code=script_code("audit_report"),
    script:
        "../workflow/scripts/audit_report.py"


# Without an output, so it looks each time; and apart from the table and figure, which stay on disk
# to show what is wrong.
rule audit:
    input:
        rules.audit_report.output,
        claims=claim_files,
    log:
        "results/audit/logs/check.log",
    localrule: True
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(1000),
        runtime=growing(10),
    script:
        "../workflow/scripts/audit_check.py"
