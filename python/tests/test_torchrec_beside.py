"""A plan without a profile costs at most what TorchRec's own plan of the model costs, by TorchRec's
estimators: small models drawn from seeds, both planners with the same arguments.

    NEUROSHARD_DRAWS=120 pytest -s tests/test_torchrec_beside.py

draws 120 models in place of DRAWS, and prints the shares of the costs.
"""

from __future__ import annotations

import os
import random
import statistics
from typing import Any

import torch
from torch import nn
from torchrec.distributed.planner import ParameterConstraints, Topology
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection

from neuroshard_compare.torchrec_model import Cluster, Engine, NoPlanError
from neuroshard_torchrec import NeuroShardPlanner

DRAWS = 8
META = torch.device("meta")


def drawn(
    seed: int,
) -> tuple[nn.Module, dict[str, ParameterConstraints], Cluster]:
    """A model of 1 to 12 tables, what its features look up, and the ranks to plan it for."""
    draw = random.Random(seed)
    configs, constraints = [], {}
    for i in range(draw.randint(1, 12)):
        features = [f"f{i}_{k}" for k in range(draw.choice((1, 1, 1, 2)))]
        configs.append(
            EmbeddingBagConfig(
                name=f"t{i}",
                num_embeddings=int(10 ** draw.uniform(1.5, 6.5)),
                embedding_dim=draw.choice((8, 16, 32, 64, 128, 256)),
                feature_names=features,
            )
        )
        # Of a table without constraints, TorchRec's planner counts one feature only.
        if draw.random() < 0.8 or len(features) > 1:
            factors = [round(10 ** draw.uniform(0, 2), 1) for _ in features]
            constraints[f"t{i}"] = ParameterConstraints(pooling_factors=factors)
    model = nn.ModuleDict({"bags": EmbeddingBagCollection(configs, device=META)})
    devices, per_host = draw.choice(((2, 2), (4, 4), (8, 8), (4, 2), (8, 4), (16, 8)))
    memory, batch = draw.choice((8, 16, 32)) << 30, draw.choice((64, 512, 4096))
    return model, constraints, Cluster(devices, per_host, memory, batch)


def test_no_plan_costs_more_than_torchrecs(binary: str) -> None:
    """Neither planner gets an optimizer, so both may replicate tables."""
    shares: dict[int, float] = {}
    for seed in range(int(os.environ.get("NEUROSHARD_DRAWS", DRAWS))):
        model, constraints, cluster = drawn(seed)
        engine = Engine(model, None, cluster, constraints, {})
        # Memory and bandwidths are those of the topology that TorchRec's planner gets.
        arguments: dict[str, Any] = {
            "topology": Topology(
                cluster.devices,
                "cuda",
                local_world_size=cluster.devices_per_host,
                hbm_cap=cluster.memory_bytes,
            ),
            "batch_size": cluster.batch_per_rank,
            "constraints": constraints,
        }
        try:
            theirs = max(engine.estimate(engine.plan(None))[0])
        except NoPlanError:
            continue
        ours = NeuroShardPlanner(**arguments, binary=binary).plan(model, engine.sharders)
        shares[seed] = max(engine.estimate(ours)[0]) / theirs
    assert shares
    print(
        f"{len(shares)} models: {statistics.median(shares.values()):.3f} of the cost of TorchRec's "
        f"plan in the median, {max(shares.values()):.6f} at most"
    )
    assert {s: x for s, x in shares.items() if x > 1 + 1e-9} == {}
