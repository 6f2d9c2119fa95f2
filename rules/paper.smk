# What people read: rows, tables, figures, a report. No torch, no training.


rule collect:
    input:
        unpack(collected_files),
    output:
        rows=f"{WORK}/{{study}}/rows.csv",
        context=f"{WORK}/{{study}}/context.json",
    log:
        f"{WORK}/{{study}}/logs/collect.log",
    localrule: True
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        models=lambda w: MADE.collected_models(),
        sealed=lambda w: {
            "own": MADE.rows_made_of(),
            "read": MADE.collected_made_of(),
        },
        known=lambda w: MADE.taken_over(),
        cells=lambda w: [(cell.dataset, cell.name) for cell in MADE.cells_with_models()],
        about=lambda w: asked.about(STUDY, MADE.unavailable),
        code=script_code("collect"),
    script:
        "../workflow/scripts/collect.py"


rule draw:
    input:
        rows=f"{WORK}/{{study}}/rows.csv",
        context=f"{WORK}/{{study}}/context.json",
        attacks=MADE.attack_rows_file(),
        published=MADE.published_files(),
        statements=MADE.statements_folders(),
        template=multiext(
            "workflow/graphdp/paper/templates/report", ".html.j2", ".css", ".js"
        ),
    output:
        report=report(
            f"{WORK}/{{study}}/report.html",
            category="Report",
            labels={"study": "{study}"},
            caption="../workflow/report/report.rst",
        ),
        tables=[path.replace(STUDY.study, "{study}", 1) for path in MADE.table_files()],
        figures=report(
            [path.replace(STUDY.study, "{study}", 1) for path in MADE.figure_files()],
            category="Figures",
            caption="../workflow/report/figure.rst",
        ),
    log:
        f"{WORK}/{{study}}/logs/draw.log",
    localrule: True
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=growing(2000),
        runtime=growing(30),
    params:
        sealed=lambda w: {"own": MADE.report_made_of()},
        code=lambda w: script_code("draw", *registry.figures_code(GRID.methods())),
    script:
        "../workflow/scripts/draw.py"
