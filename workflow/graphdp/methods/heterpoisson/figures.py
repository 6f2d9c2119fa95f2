"""PNPiGNNs' own tables and figures: Tables 1 to 4, Figures 1 and 4 to 10, and beyond the paper.

Figures 2 and 3 of the paper are diagrams.
"""

from graphdp.methods.heterpoisson import accuracy_plots as drawn
from graphdp.methods.heterpoisson import number_plots as computed
from graphdp.methods.heterpoisson import paper_tables as printed
from graphdp.paper.plots import Drawing
from graphdp.paper.statistics import STATISTICS_NUMBERS, table1
from graphdp.paper.tables import Table

_NUMBERS = printed.TABLE_FLOATS, printed.TABLE_COUNTS
TABLES: dict[str, Table] = {
    "pnpignn_table1": Table("PNPiGNNs Table 1", table1, printed.show_table1, STATISTICS_NUMBERS),
    "pnpignn_table2": Table("PNPiGNNs Table 2", printed.table2, printed.show_table2, *_NUMBERS),
    "pnpignn_table3": Table("PNPiGNNs Table 3", printed.table3, printed.show_table3, *_NUMBERS),
    "pnpignn_table4": Table("PNPiGNNs Table 4", printed.table4, printed.show_table4, *_NUMBERS),
}
_RULE = (
    "A neighbour that is itself a centre of the round is dropped (enforced) or kept; both with "
    "Gaussian noise, each with the σ that its rule needs, SAGE, M chosen for each. The values of "
    "the printed figure cannot be read from its text."
)
_HEAT = (
    "Accuracy by M (training) and N_test (testing) of GCN with Gaussian noise, corrected, at ε = 2 "
    "and without privacy; the panels of a graph share their colours. The values of the printed "
    "figure cannot be read from its text."
)
_VARIANTS = (
    "Accuracy against ε by convolution: as its authors' code runs it and as published, whose ε are "
    "claims (dashed), corrected, and the same network without neighbours; diamonds are the "
    "paper's. M of what the code runs is chosen on test nodes, as it does, else on validation ones."
)


def _of_graph(name: str) -> Drawing:
    return Drawing(
        f"PNPiGNNs on {name}",
        drawn.accuracy_of(name),
        _VARIANTS,
        of_study=False,
    )


FIGURES: dict[str, Drawing] = {
    "pnpignn_figure1": Drawing(
        "PNPiGNNs Figure 1",
        computed.figure1,
        "How far one more node moves a gradient, against its out-edges: Erdős–Rényi graphs of 100 "
        "nodes, 10 classes, 100 seeds. The paper names neither the edge probability (0.1 here), "
        "nor the network (one layer, mean, 16 units), nor the features (16).",
        of_study=False,
    ),
    "pnpignn_figure4": Drawing(
        "PNPiGNNs Figure 4",
        computed.figure4,
        "SML, Laplace and Gaussian noise of standard deviation 1. SML is a Gaussian whose own "
        "scale is drawn: on a line it is Laplace, but in more dimensions the norm tells the scale.",
        of_study=False,
    ),
    "pnpignn_figure5": Drawing(
        "PNPiGNNs Figure 5",
        drawn.figure5,
        "SML noise by the published analysis, whose ε is a claim, against Gaussian noise by an "
        "analysis that holds (SAGE). The paper's Gaussian has the noise of its own, far looser "
        "analysis. The values of the printed figure cannot be read from its text.",
    ),
    "pnpignn_figure6": Drawing("PNPiGNNs Figure 6", drawn.overlap("transductive"), _RULE),
    "pnpignn_figure7": Drawing("PNPiGNNs Figure 7", drawn.heat_maps("sampling"), _HEAT),
    "pnpignn_figure8": Drawing(
        "PNPiGNNs Figure 8",
        computed.figure8,
        "Membership inference (a, c), measured once and shipped, and audits (b, d) of HeterPoisson "
        "and of NDP, as far as `snakemake audit` has left results. A bound above the dashed line "
        "refutes its claim.",
        of_study=False,
    ),
    "pnpignn_figure9": Drawing(
        "PNPiGNNs Figure 9",
        drawn.heat_maps("sampling_inductive"),
        f"{_HEAT} Inductive: training reads edges between training nodes alone.",
    ),
    "pnpignn_figure10": Drawing(
        "PNPiGNNs Figure 10",
        drawn.overlap("inductive"),
        f"{_RULE} Inductive: training reads edges between training nodes alone.",
    ),
    "pnpignn_table2": Drawing(
        "PNPiGNNs Table 2",
        drawn.accuracy_of("pubmed", "computers", "facebook-pages", "twitch-de"),
        f"{_VARIANTS} Facebook and Twitch have their original features here.",
        of_study=False,
    ),
    "pnpignn_pubmed": _of_graph("pubmed"),
    "pnpignn_computers": _of_graph("computers"),
    "pnpignn_twitch_de": _of_graph("twitch-de"),
    "pnpignn_facebook_pages": _of_graph("facebook-pages"),
    "pnpignn_berkeley13": _of_graph("berkeley13"),
    "pnpignn_tail": Drawing(
        "SML's tail",
        computed.tail,
        "δ(ε) of the published noise: what Theorems 1 and 2 claim, a lower bound on what is true "
        "in high dimension, and what an attack shows. The norm of the noise tells its scale, and a "
        "round with a small scale gives the node away.",
        of_study=False,
    ),
    "pnpignn_noise": Drawing(
        "Noise by analysis",
        computed.noise_by_lists,
        "The noise that each corrected analysis asks for, by how many lists hold the node.",
        of_study=False,
    ),
    "pnpignn_overlap": Drawing(
        "Noise by overlap rule",
        computed.noise_by_overlap,
        "The noise that meets ε = 2 with overlaps kept and dropped, beside the published claim.",
        of_study=False,
    ),
}
