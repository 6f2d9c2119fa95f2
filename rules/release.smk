# A private release (`release: private`): of all that was made, in private/, what may be published.
if PRIVATE:

    def released_file():
        return f"results/{STUDY.study}/statement.json"

    def released_model(wildcards):
        """The one model of the study: what its job makes, and the statement of its ε."""
        (cell,) = GRID.cells
        (block,) = GRID.blocks([])
        return {
            "row": result("fit", cell.path, block)[0],
            "statements": f"{RESULTS}/statements/{cell.dataset}",
        }

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
        conda:
            ENVIRONMENT
        params:
            # The row's file, and the statement's name.
            row=lambda w: result("fit", GRID.cells[0].path, GRID.blocks([])[0])[1],
            name=lambda w: GRID.cells[0].released.partition("/")[2],
            code=script_code("release"),
        script:
            "../workflow/scripts/release.py"
