# A private release (`release: private`): of all that was made, in private/, what may be published.
if MADE.private:

    rule release:
        input:
            unpack(released_model),
        # What was published stays until this job has found nothing wrong: on another machine, or
        # with other versions, it could not be made again. Snakemake brings it back as if it were
        # new; that the job failed is told by the record, which is then missing.
        output:
            record=f"{WORK}/{{study}}/{private.RECORD}",
            row=update("results/{study}/row.csv"),
            model=update("results/{study}/model.npz"),
            json=update("results/{study}/statement.json"),
            md=update("results/{study}/statement.md"),
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
