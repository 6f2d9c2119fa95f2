"""A whole paper's grid of calibrations: CPU time, and how far the accountants agree.

    python workflow/benchmarks/accountants.py [--pld] [--figure agreement.png]

5 datasets x 6 methods and levels x 5 ε x 5 depths = 750 calibrations, on one core. Prints the CPU
seconds of the process, start-up included, and for every accountant the smallest and largest
ε / target at the calibrated noise. `--pld` adds the tight value by privacy loss distribution (slow:
it is not part of a calibration), `--figure` draws all values.

At whole Rényi orders autodp and dp-accounting compute the same sums. In between autodp takes the
chord of the log-moments, an upper bound, where dp-accounting is exact: at large ε, whose best order
is small and fractional, autodp asks for more noise.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from graphdp.methods.gap.plan import gap_plan
from graphdp.methods.mlp.plan import mlp_plan
from graphdp.methods.progap.plan import progap_plan
from graphdp.privacy import accounting
from graphdp.privacy.calibration import Calibration, calibrate, default_delta
from graphdp.privacy.plan import Plan

# Training nodes, batch size, max_degree: the ProGAP paper's datasets, sizes to scale.
DATASETS = {
    "facebook": (19804, 256, 100),
    "reddit": (87534, 2048, 400),
    "amazon": (1343048, 4096, 50),
    "fb-100": (1000000, 4096, 100),
    "wenet": (28000, 1024, 400),
}
NODE_EPSILONS = (1, 2, 4, 8, 16)
EDGE_EPSILONS = (0.5, 1, 2, 4, 8)
EDGE_DELTA = 1e-7


def cells() -> Iterator[tuple[str, Plan, float, float]]:
    """(method and level, plan, target ε, δ) of every calibration."""
    for nodes, batch_size, max_degree in DATASETS.values():
        node = (max_degree, nodes, batch_size, 10, 1.0)
        for depth in range(1, 6):
            plans = {
                "GAP, node": gap_plan("node", depth, *node),
                "GAP without encoder, node": gap_plan("node", depth, *node, encoder=False),
                "ProGAP, node": progap_plan("node", depth, *node),
                "MLP-DP, node": mlp_plan("node", *node[1:]),
                "GAP, edge": gap_plan("edge", depth),
                "ProGAP, edge": progap_plan("edge", depth),
            }
            for name, plan in plans.items():
                epsilons = EDGE_EPSILONS if plan.level == "edge" else NODE_EPSILONS
                for epsilon in epsilons:
                    delta = EDGE_DELTA if plan.level == "edge" else default_delta(nodes)
                    yield name, plan, epsilon, delta


def readings(found: Calibration, with_pld: bool) -> dict[str, float]:
    """ε / target by every accountant at the calibrated noise."""
    values = {entry.accountant: entry.epsilon for entry in found.accounting}
    if with_pld and found.noise_multiplier >= accounting.PLD_LEAST_NOISE:
        values["pld"] = accounting.epsilon(found.plan, found.noise_multiplier, found.delta, "pld")
    return {name: value / found.target_epsilon for name, value in values.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pld", action="store_true")
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()

    calibrations = [(name, calibrate(plan, *aim)) for name, plan, *aim in cells()]
    print(f"{len(calibrations)} calibrations: {time.process_time():.1f} s of CPU")

    shares = defaultdict(list)
    apart = 0.0
    for name, found in calibrations:
        values = readings(found, arguments.pld)
        for accountant, share in values.items():
            shares[accountant, name.split(", ")[1]].append((found.target_epsilon, share))
        ours, theirs = accounting.cross_check(found.plan, found.noise_multiplier, found.delta)
        apart = max(apart, abs(ours / theirs - 1))
    print(f"autodp and dp-accounting over whole Rényi orders: at most {apart:.1e} apart")
    for (accountant, level), values in sorted(shares.items(), key=lambda item: item[0][::-1]):
        low, high = (pick(share for _, share in values) for pick in (min, max))
        print(f"{level:5} {accountant:14} ε / target: {low:.6f} to {high:.6f}")
    if arguments.figure:
        draw(shares, arguments.figure)


def draw(shares: dict[tuple[str, str], list[tuple[float, float]]], path: Path) -> None:
    """One panel per level: ε / target against the target, by every accountant."""
    from matplotlib import pyplot
    from matplotlib.ticker import NullLocator, ScalarFormatter

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
    names = sorted({accountant for accountant, _ in shares})
    for axes, level in zip(panels, ("edge", "node"), strict=True):
        for number, accountant in enumerate(names):
            targets, values = zip(*shares.get((accountant, level), [(None, None)]), strict=True)
            shift = 1.06 ** (number - (len(names) - 1) / 2)
            shifted = [target and target * shift for target in targets]
            axes.plot(shifted, values, ".", alpha=0.6, label=accountant.replace("_", " "))
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_title(f"{level} level")
        axes.set_xlabel(f"target ε ({level} level, as published, δ of the paper's rule)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    panels[0].set_ylabel("ε of the calibrated noise / target")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
