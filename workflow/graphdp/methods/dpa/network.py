"""The network on the sums: one hidden layer, as the authors' code trains it (train.py, model.py).

z = relu(x W + b), dropout, z V + c; Adam with an L2 penalty, all training nodes at once. Weights
start uniform within 1/√(width of the layer). Every fifth epoch the loss on the validation nodes'
targets is looked at; training ends when it was not below its least for the tenth time in a row. The
last weights are kept. `activation: none` leaves relu out.
"""

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from graphdp.data.split import Split
from graphdp.rng import generator, stream_seed
from graphdp.training.members import Fitted, like_of

_LOOKS, _PATIENCE = 5, 9


def train(
    x: np.ndarray,
    targets: np.ndarray,
    labels: np.ndarray,
    split: Split,
    classes: int,
    setting: dict[str, Any],
    stream: tuple,
    device: str,
    executed: dict[str, Any],
    posteriors: bool,
) -> Fitted:
    """Train on x, float (n, C), and `targets` (n,), of training and validation nodes.

    labels: the true ones, (n,), for accuracies alone. executed: what was drawn for x and targets.
    """
    like = like_of(device, torch.float32)
    inputs = torch.from_numpy(np.ascontiguousarray(x, np.float32)).to(like.device)
    wanted = torch.from_numpy(np.asarray(targets, np.int64)).to(like.device)
    rng, hidden = generator(*stream, "init"), setting["hidden"]
    shapes = {"W": (x.shape[1], hidden), "b": (hidden,), "V": (hidden, classes), "c": (classes,)}
    p = {}
    for name, shape in shapes.items():
        bound = 1 / np.sqrt(shape[-1])
        drawn = torch.from_numpy(rng.uniform(-bound, bound, shape).astype(np.float32))
        p[name] = drawn.to(like.device)
    # W lies by columns: the same numbers, its gradient in two thirds of the time.
    p["W"] = p["W"].t().contiguous().t()
    for value in p.values():
        value.requires_grad_()
    optimiser = torch.optim.Adam(
        list(p.values()), lr=setting["learning_rate"], weight_decay=setting["weight_decay"]
    )
    coins = torch.Generator(like.device).manual_seed(stream_seed(*stream, "dropout"))
    train_x, val_x = inputs[split.train], inputs[split.val]
    keep, least, misses, history = 1 - setting["dropout"], np.inf, 0, []

    def scores(rows: torch.Tensor, training: bool = False) -> torch.Tensor:
        z = torch.addmm(p["b"], rows, p["W"])
        z = z if setting.get("activation") == "none" else torch.relu(z)
        if training and keep < 1:
            z = z * torch.empty_like(z).bernoulli_(keep, generator=coins) / keep
        return torch.addmm(p["c"], z, p["V"])

    epoch = 0
    for epoch in range(setting["epochs"]):
        optimiser.zero_grad()
        F.cross_entropy(scores(train_x, True), wanted[split.train]).backward()
        optimiser.step()
        if epoch % _LOOKS == 0:
            with torch.no_grad():
                found = scores(val_x)
            history.append(float((found.argmax(1) == wanted[split.val]).float().mean()))
            loss = float(F.cross_entropy(found, wanted[split.val]))
            least, misses = (loss, 0) if loss < least else (least, misses + 1)
            if misses > _PATIENCE:
                break
    with torch.no_grad():
        found = scores(inputs)
    classes_found = found.argmax(1).cpu().numpy()
    right = classes_found == labels
    return Fitted(
        *(float(right[part].mean()) for part in (split.train, split.val, split.test)),
        best_epoch=epoch + 1,
        predictions=classes_found.astype(np.int16),
        embedding=None,
        parameters={name: value.detach().cpu().numpy() for name, value in p.items()},
        history=np.array(history),
        rounds=sum(one.count for one in executed.values()),
        executed=executed,
        posteriors=torch.softmax(found, 1).cpu().numpy() if posteriors else None,
    )
