"""What follows from the pins in requirements.txt: run this after a change there.

python envs/generate.py          graphdp.yaml, the conda environment
python envs/generate.py --lock   also requirements.lock, the hash of every file (needs uv, and the
                                 public index: another one may serve other builds)
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PINS, CONDA, LOCK = (
    FOLDER / name for name in ("requirements.txt", "graphdp.yaml", "requirements.lock")
)
PYTHON = "3.11"
_CONDA = f"""\
# Made of requirements.txt by envs/generate.py; do not edit. For `snakemake --sdm conda`, see
# docs/installation.md. The library is found where it stands and is not installed.
channels:
  - conda-forge
dependencies:
  - python={PYTHON}
  - pip
  - pip:
"""
_LOCK = """\
# Made of requirements.txt by envs/generate.py --lock; do not edit. One requirement a line with the
# hashes of its files on the public index, for every platform: make install REQUIREMENTS=this file.
"""


def pins() -> list[str]:
    """The requirements of requirements.txt: name==version each."""
    return re.findall(r"^[^#\s].*$", PINS.read_text(), flags=re.MULTILINE)


def conda() -> str:
    """The conda environment. No paths in it: Snakemake and conda read copies elsewhere."""
    return _CONDA + "".join(f"      - {pin}\n" for pin in pins())


def lock() -> str:
    """The pins and what they need on any platform, with hashes."""
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", PYTHON]
    options = ["--generate-hashes", "--no-annotate", "--no-header", "--no-config", str(PINS)]
    try:
        result = subprocess.run([*command, *options], stdout=subprocess.PIPE, text=True, check=True)
    except FileNotFoundError:
        sys.exit("no uv: python -m pip install uv")
    except subprocess.CalledProcessError:
        sys.exit("uv cannot resolve envs/requirements.txt: see above")
    return _LOCK + re.sub(r" *\\\n +", " ", result.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lock", action="store_true", help="make requirements.lock too")
    given = parser.parse_args()
    CONDA.write_text(conda())
    if given.lock:
        LOCK.write_text(lock())
