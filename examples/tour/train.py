"""Trains the embeddings under my_plan.json; your script has an optimizer for the dense layers."""

import torch
import torch.distributed as dist
from model import BATCH, Model, draw
from neuroshard_torchrec import StepTimes, load_plan
from torchrec.distributed.model_parallel import DistributedModelParallel

dist.init_process_group("gloo")  # "nccl" on GPUs
model = Model()
model = DistributedModelParallel(model, device=torch.device("cpu"), plan=load_plan("my_plan.json", model))
with StepTimes(model, "times.{rank}.jsonl"):
    for step in range(400):
        loss = torch.nn.functional.mse_loss(model(draw()), torch.ones(BATCH))
        loss.backward()
        if step % 100 == 0 and dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.4f}")
dist.barrier()
dist.destroy_process_group()
