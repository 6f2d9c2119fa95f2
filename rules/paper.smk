# What people read: rows, tables, figures, a report. No torch, no training.


rule collect:
    input:
        models=model_files,
        # No rows without the statements of their models.
        statements=statement_files,
    output:
        "results/{study}/rows.csv",
    log:
        "results/{study}/logs/collect.log",
    conda:
        ENVIRONMENT
    params:
        code=script_code("collect"),
    script:
        "../workflow/scripts/collect.py"


rule context:
    input:
        statistics=statistics_files,
        calibrations=calibration_files,
    output:
        "results/{study}/context.json",
    log:
        "results/{study}/logs/context.log",
    conda:
        ENVIRONMENT
    params:
        study=STUDY.study,
        title=STUDY.title,
        paper=STUDY.paper,
        datasets=STUDY.datasets,
        unavailable=UNAVAILABLE,
        published=f"config/published/{STUDY.paper}.csv" if STUDY.paper else None,
        orderings="config/published/orderings.csv" if STUDY.paper else None,
        experiments=GRID.experiments(),
        attacks=GRID.attacks(),
        methods=list(methods.METHODS),
        code=script_code("context"),
    script:
        "../workflow/scripts/context.py"


rule table:
    input:
        rows=table_rows,
        context="results/{study}/context.json",
        published=published_files,
    output:
        csv="results/{study}/tables/{table}.csv",
        md="results/{study}/tables/{table}.md",
        tex="results/{study}/tables/{table}.tex",
    log:
        "results/{study}/logs/tables/{table}.log",
    conda:
        ENVIRONMENT
    params:
        code=script_code("table"),
    script:
        "../workflow/scripts/table.py"


rule figure:
    input:
        rows="results/{study}/rows.csv",
        context="results/{study}/context.json",
        published=published_files,
    output:
        svg=report(
            "results/{study}/figures/{figure}.svg",
            category="Figures",
            labels={"study": "{study}", "figure": "{figure}"},
            caption="../workflow/report/figure.rst",
        ),
        png="results/{study}/figures/{figure}.png",
    log:
        "results/{study}/logs/figures/{figure}.log",
    conda:
        ENVIRONMENT
    params:
        code=script_code("figure"),
    script:
        "../workflow/scripts/figure.py"


rule html_report:
    input:
        rows="results/{study}/rows.csv",
        context="results/{study}/context.json",
        tables=[path for path in table_files() if path.endswith(".csv")],
        figures=[path for path in figure_files() if path.endswith(".svg")],
        published=published_files,
        template="workflow/graphdp/paper/templates/report.html.j2",
    output:
        report(
            "results/{study}/report.html",
            category="Report",
            labels={"study": "{study}"},
            caption="../workflow/report/report.rst",
        ),
    log:
        "results/{study}/logs/report.log",
    conda:
        ENVIRONMENT
    params:
        code=script_code("html_report"),
    script:
        "../workflow/scripts/html_report.py"
