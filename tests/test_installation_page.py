"""The numbers of docs/installation.md that come from shipped rows."""

import re
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs/installation.md").read_text()


def test_memory_and_time_of_studies_are_those_of_all_shipped_rows():
    shipped = {path.name for path in (ROOT / "workflow/report").glob("*-rows.csv.gz")}
    lines = re.findall(r"^\| `.*\|$", TEXT, flags=re.MULTILINE)
    assert {re.search(r"report/([\w.-]+)`", line)[1] for line in lines} == shipped
    for line in lines:
        name = re.search(r"report/([\w.-]+)`", line)[1]
        rows = pd.read_csv(ROOT / "workflow/report" / name)
        memory, minutes = rows["peak_rss_mb"], rows["cpu_seconds"].sum() / 60
        (study,) = rows["study"].unique()
        assert line == (
            f"| `{study}` | `workflow/report/{name}` | {len(rows):,} "
            f"| {memory.median():,.0f}, {memory.max():,.0f} | {minutes:.0f} min |"
        )
