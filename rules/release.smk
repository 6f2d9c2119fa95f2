# A private release (`release: private`): of all that was made, in private/, what may be published.
if MADE.private:

    rule release:
        input:
            unpack(released_model),
        output:
            row="results/{study}/row.csv",
            model="results/{study}/model.npz",
            json="results/{study}/statement.json",
            md="results/{study}/statement.md",
        log:
            f"{WORK}/{{study}}/logs/release.log",
        localrule: True
        conda:
            ENVIRONMENT
        threads: 1
        resources:
            mem_mb=growing(1000),
            runtime=growing(10),
        params:
            # The row's file, and the statement's name.
            row=lambda w: MADE.released_unit()[2],
            name=lambda w: MADE.released_unit()[0].released.partition("/")[2],
            code=script_code("release"),
        script:
            "../workflow/scripts/release.py"
