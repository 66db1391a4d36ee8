"""Makes zip_1.8.pt.gz, the lookups of torch.json as an old PyTorch writes them.

    python make_old.py

Made with PyTorch 1.8.1, of the year of the published benchmark. It names storages
by their addresses, so that they lie in any order, and writes no byte order.
"""

import gzip
import io
import json
import os

import torch

folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, "torch.json")) as f:
    tables = json.load(f)
lengths = torch.tensor([t["lengths"] for t in tables])
indices = torch.tensor([i for t in tables for i in t["indices"]])
offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.flatten().cumsum(0)])
buffer = io.BytesIO()
torch.save((indices, offsets, lengths), buffer)
with open(os.path.join(folder, "zip_1.8.pt.gz"), "wb") as f:
    f.write(gzip.compress(buffer.getvalue()))
