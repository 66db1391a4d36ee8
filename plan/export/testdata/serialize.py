"""Writes serialized.json, a plan as TorchRec serializes it, of its own making:

    python serialize.py > serialized.json      (torchrec 1.6.1)
"""

import json

import torch
from torchrec.distributed import sharding_plan as by
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.types import ShardingPlan
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection


def module(tables, generators):
    configs = [
        EmbeddingBagConfig(name=name, num_embeddings=rows, embedding_dim=dim, feature_names=[name])
        for name, rows, dim in tables
    ]
    return by.construct_module_sharding_plan(
        EmbeddingBagCollection(tables=configs, device=torch.device("meta")),
        generators,
        sharder=EmbeddingBagCollectionSharder(),
        local_size=2,
        world_size=4,
        device_type="cuda",
    )


sparse = module(
    [("user", 1000, 64), ("item", 2000, 128), ("word", 5, 8), ("host", 9, 8), ("grid", 10, 256), ("tiny", 10, 4)],
    {
        "user": by.table_wise(rank=3),
        "item": by.column_wise(ranks=[2, 0]),
        "word": by.row_wise(),
        "host": by.table_row_wise(host_index=1),
        "grid": by.grid_shard(host_indexes=[1, 0]),
        "tiny": by.data_parallel(),
    },
)
over = module([("user", 7, 4)], {"user": by.table_wise(rank=1, compute_kernel="fused_uvm_caching")})
print(json.dumps(ShardingPlan(plan={"sparse.ebc": sparse, "over.ebc": over})._serialize(), indent=1))
