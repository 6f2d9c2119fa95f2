"""PNPiGNNs: node-level private graph networks by HeterPoisson (Xiang, Wang and Wang, S&P 2024).

The corrected method, "heterpoisson", in each of T = ⌈epochs / q⌉ rounds, q = B / N:

  1. every training node is a centre with probability q, by its own coin
  2. every centre keeps each neighbour z that it lists with probability min(1, M / m_z), where m_z
     is the number of lists that hold z, whatever the centre's own list: so z is kept about q M
     times, however many list it (`bags.Lists`)
  3. with `overlap: dropped` a peripheral that is a centre itself is removed, with `kept` it stays
  4. each sub-graph's gradient (`network`) is clipped to C / 2; N(0, σ²) is added to their sum,
     which is divided by B; Adam takes a step

The last weights are the model. For predictions a node that is not trained on reads `test_neighbors`
of its neighbours that are not trained on either, and so nothing private. M = 0 is the same network
without neighbours.

Two more ids run the same code otherwise:

  heterpoissonsml       as printed: SML noise (`noise`), and the features of a peripheral that is a
                        centre are set to zero
  heterpoissonofficial  as the authors' code does it: its sampling (`bags.Official`), its network on
                        padded bags (`official`), the realised batch as divisor, every coordinate
                        clamped, features standardised by their mean and deviation over the graph;
                        where a test node has no test node for a neighbour, its prediction reads
                        `test_neighbors` strangers

`plan.py` says what each of them releases, and what its ε is worth.
"""

import re
from dataclasses import replace
from typing import Any

import numpy as np

from graphdp.errors import GraphDPError
from graphdp.methods.block import Block
from graphdp.methods.heterpoisson import plan_settings
from graphdp.methods.settings import key

#: Of the authors' code: the gradient's coordinates are held within so many standard deviations.
OFFICIAL_CLAMP = 0.01


def fit(block: Block, settings: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any], Any]]:
    """Train every seed of the block x setting; returns (seed, setting, fitted model) triples."""
    import torch

    from graphdp.methods.heterpoisson.network import features_of
    from graphdp.methods.heterpoisson.official_rows import standardised_features
    from graphdp.training.members import like_of

    _check_split(block, settings)
    official = block.method == "heterpoissonofficial"
    like = like_of(block.device, torch.float32)
    features = standardised_features if official else features_of
    x = features(block.graph.x, like)
    runs = block.runs(settings)
    return [
        (seed, setting, _train(block, seed, setting, x, like, f"{i + 1} of {len(runs)}"))
        for i, (seed, setting) in enumerate(runs)
    ]


def _check_split(block: Block, settings: list[dict[str, Any]]) -> None:
    """Nodes added or removed must move no other to another side; an attack's models draw theirs."""
    published = re.match("shared|per_seed", block.split_rule) and "by id" not in block.split_rule
    if published and any(setting.get("degree_bound") for setting in settings):
        raise GraphDPError(
            f"{block.method}: degree_bound public_candidates speaks of nodes added or removed, and "
            "with one node more the published split moves others; set split_sides: by_id"
        )


def _train(block: Block, seed: int, setting: dict[str, Any], x: Any, like: Any, label: str) -> Any:
    import torch

    from graphdp.methods.heterpoisson.bags import HeterPoisson, Official
    from graphdp.methods.heterpoisson.network import Convolution, Model, gradient_of
    from graphdp.methods.heterpoisson.official import OfficialModel
    from graphdp.rng import generator
    from graphdp.training.descent import descend
    from graphdp.training.sampling import sample_generator

    graph, split = block.graph, block.split(seed)
    stream = block.stream(seed, "heterpoisson", key(setting))
    rounds = _rounds(block, seed, setting)
    lists, test_lists = lists_of(block, seed, setting)
    # As the batches: on the secrecy of these coins the ε may rest.
    coins = sample_generator((*stream, "neighbours"), rounds.noise_std)
    shape = Convolution(
        graph.num_features, setting["hidden"], graph.num_classes, setting["convolution"]
    )
    values = torch.from_numpy(shape.initial(generator(*stream, "init"))).to(like)
    labels = torch.tensor(graph.y).to(like.device)
    mean, noise, shape_of_noise = None, block.noise_source, "gaussian"
    if block.method == "heterpoissonofficial":
        everyone = np.arange(graph.num_nodes)
        strangers = split.train if setting["setting"] == "inductive" else everyone
        draw, model = Official(lists, strangers, coins), OfficialModel(shape, x, values)
        mean = official_mean(rounds.noise_std)
    else:
        overlap = setting.get("overlap") or "zeroed"
        draw, model = HeterPoisson(lists, overlap, coins), Model(shape, x, values)
    if block.method != "heterpoisson":
        from graphdp.methods.heterpoisson.noise import sml

        noise, shape_of_noise = sml(block.noise_source), "sml"
    observe = block.observe
    done = descend(
        values,
        gradient_of(model.add_clipped, draw, labels),
        rounds,
        split.train,
        setting["learning_rate"],
        stream,
        mean=mean,
        noise=noise,
        observe=observe and (lambda *noisy_round: observe("training", [seed], *noisy_round)),
        label=f"heterpoisson {label}",
    )
    executed = done and replace(done, records=draw.records, noise=shape_of_noise)
    return _fitted(block, split, setting, model, test_lists, stream, executed)


def lists_of(block: Block, seed: int, setting: dict[str, Any]) -> tuple[Any, Any]:
    """The lists that training reads, with their rates, and those that predictions read.

    Training, "transductive": all edges, or those that the public candidates leave; "inductive":
    those between training nodes. As published the lists of the whole graph are counted for the
    rates either way (Algorithm 3). Predictions: edges between nodes that are not trained on, and,
    for the accuracy on training nodes, those between training nodes; in the authors' code
    validation and test nodes do not read each other either.

    Raises `GraphDPError` where more lists hold a node than the plan accounts: `max_degree`, or of
    training nodes as many as there are, which of a private release is the announced number.
    """
    from graphdp.data.graph import in_edges
    from graphdp.graphs import degree
    from graphdp.graphs.bounds import bound_name
    from graphdp.methods.heterpoisson.bags import Lists, between

    graph, public = block.graph, bool(setting.get("degree_bound"))
    edges = graph.indptr, graph.indices
    if public:
        keep = degree.keep_edges(graph, bound_name(setting), (), (block.dataset, seed))
        edges = degree.apply_mask(*edges, keep)
    split, sides = block.split(seed), np.zeros(graph.num_nodes, np.int8)
    sides[split.train] = 1
    apart, whole = between(*edges, sides), in_edges(*edges)
    lists = apart if setting["setting"] == "inductive" else whole
    most = setting.get("max_degree") or block.num_train(seed)
    listers = np.repeat(sides, np.diff(lists.indptr)) == 1
    held = int(np.bincount(lists.indices[listers], minlength=1).max())
    if held > most:
        raise GraphDPError(
            f"{held} training nodes list one node, but the plan takes {most} for the most: raise "
            "max_degree or train_nodes"
        )
    counted = None if block.method == "heterpoisson" else whole
    if block.method == "heterpoissonofficial":
        sides[split.test] = 2
        apart = between(*edges, sides)
    return (
        Lists.of(lists, setting["num_neighbors"], setting.get("max_degree"), public, counted),
        Lists.of(apart, setting["test_neighbors"]),
    )


def _rounds(block: Block, seed: int, setting: dict[str, Any]) -> Any:
    """The rounds that the plan accounts; without privacy the same samples without noise."""
    from graphdp.methods.heterpoisson.plan import rounds_without_noise
    from graphdp.training.descent import rounds_of

    planned = block.phase(plan_settings(block.level, setting), seed, "training")
    if planned is None:
        run = rounds_without_noise(block.method, setting, block.num_train(seed))
    else:
        run = planned.run
    size = setting["batch_size"]
    return rounds_of(run, setting["epochs"], noise_free=planned is None, batch_size=size)


def official_mean(noise_std: float):
    """As the authors' code: by the nodes that happened to be drawn, every coordinate clamped."""

    def mean(sums: Any, size: int) -> None:
        sums.div_(max(size, 1))
        if noise_std:
            most = OFFICIAL_CLAMP * noise_std / max(size, 1)
            sums.clamp_(-most, most)

    return mean


def official_scores(model: Any, lists: Any, parts: Any, count: int, coins: Any) -> Any:
    """Class scores of all nodes as the authors' code has them: a node without a neighbour of its
    part reads `count` strangers of it, and bags are padded by shuffled batches of each part."""
    import torch

    from graphdp.methods.heterpoisson.bags import with_strangers

    order, found = [coins.permutation(part) for part in parts if len(part)], []
    for nodes in order:
        bags = with_strangers(lists.some_of(nodes, count, coins), lists, count, nodes, coins)
        found.append(model.scores(bags))
    places = torch.from_numpy(np.argsort(np.concatenate(order))).to(found[0].device)
    return torch.cat(found)[places]


def _fitted(block: Block, split: Any, setting: dict, model: Any, lists: Any, stream: tuple, done):
    import torch

    from graphdp.rng import generator
    from graphdp.training import Fitted

    graph, parts = block.graph, (split.train, split.val, split.test)
    coins = generator(*stream, "test neighbours")
    if block.method == "heterpoissonofficial":
        # Nodes that a split leaves out, which the authors' have not, go with the validation nodes.
        others = np.setdiff1d(np.arange(graph.num_nodes), np.append(split.train, split.test))
        sides = split.train, others, split.test
        scores = official_scores(model, lists, sides, setting["test_neighbors"], coins)
    else:
        chosen = lists.some_of(np.arange(graph.num_nodes), setting["test_neighbors"], coins)
        scores = model.scores(chosen)
    classes = scores.argmax(1).cpu().numpy()
    right = classes == graph.y
    accuracies = [float(right[part].mean()) for part in parts]
    return Fitted(
        *accuracies,
        best_epoch=setting["epochs"],
        predictions=classes.astype(np.int16),
        embedding=None,
        parameters={name: view.cpu().numpy() for name, view in model.p.items()},
        history=np.array(accuracies[1:2]),
        rounds=done.count if done else 0,
        executed={"training": done} if done else {},
        posteriors=torch.softmax(scores, 1).cpu().numpy() if block.posteriors else None,
    )
