"""Commands of single modules, `python -m graphdp.<module>`."""

import argparse


def without_arguments(module: str, doc: str | None) -> None:
    """Read the command line of a module that takes nothing: `--help` prints `doc` and ends it, as
    does, with exit code 2 and one line, anything else."""
    argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
