"""The session of `test_parties` as a process: `python tests/parties_session.py FILE CHANGES`.

CHANGES: JSON of what it is started with besides. Once all are connected it says so, and then makes
a round for every line that it reads. FILE gets the sums of all rounds, once all are made.
"""

import json
import sys

import numpy as np

from graphdp.errors import GraphDPError
from test_parties import ROUNDS, rows_of, session


def main() -> int:
    found = []
    try:
        with session(**json.loads(sys.argv[2])) as rounds:
            for one in ROUNDS:
                print(json.dumps(rounds.processes), flush=True)
                sys.stdin.readline()
                found.append(rounds.add_up(one, rows_of(one)))
    except GraphDPError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    np.savez(sys.argv[1], *found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
