"""A training under NeuroShardPlanner: torchrun --nproc-per-node 2 train.py."""

import os

import torch
import torch.distributed as dist
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from torch import nn
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel

from neuroshard_torchrec import NeuroShardPlanner

BATCH = 512  # of one rank
FEATURES = {"user": (100_000, 64, 1), "item": (50_000, 128, 20), "country": (200, 16, 1)}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings = EmbeddingBagCollection(
            device=torch.device("meta"),
            tables=[
                EmbeddingBagConfig(
                    name=name, num_embeddings=rows, embedding_dim=dim, feature_names=[name]
                )
                for name, (rows, dim, _) in FEATURES.items()
            ],
        )
        self.dense = nn.Linear(sum(dim for _, dim, _ in FEATURES.values()), 1)

    def forward(self, features: KeyedJaggedTensor) -> torch.Tensor:
        pooled = self.embeddings(features)
        return self.dense(torch.cat([pooled[name] for name in FEATURES], dim=1)).squeeze(1)


def draw(device: torch.device) -> KeyedJaggedTensor:
    values = [torch.randint(rows, (BATCH * n,)) for rows, _, n in FEATURES.values()]
    lengths = [torch.full((BATCH,), n) for _, _, n in FEATURES.values()]
    return KeyedJaggedTensor(
        keys=list(FEATURES), values=torch.cat(values), lengths=torch.cat(lengths)
    ).to(device)


cuda = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
dist.init_process_group("nccl" if cuda else "gloo")
model = Model()
sharders = [
    EmbeddingBagCollectionSharder(
        fused_params={"optimizer": EmbOptimType.EXACT_ROWWISE_ADAGRAD, "learning_rate": 0.05}
    )
]
planner = NeuroShardPlanner(profile="a100-80", sample=draw(device))
plan = planner.collective_plan(model, sharders)
model = DistributedModelParallel(model, device=device, plan=plan, sharders=sharders)
if dist.get_rank() == 0:
    print(planner.report)

optimizer = torch.optim.SGD(model.module.dense.parameters(), lr=0.05)
for step in range(5):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(draw(device)), torch.ones(BATCH, device=device))
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print(f"step {step}: loss {loss.item():.4f}")
dist.barrier()  # no rank leaves while another still talks to it
dist.destroy_process_group()
