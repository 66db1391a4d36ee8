"""Makes the files in this folder that torch.save wrote, and torch.json beside them.

    python make_torch.py

Made with PyTorch 2.11. All files but those in the folder bad hold the lookups of
torch.json: for each table the bags' lengths, and the rows.
"""

import gzip
import io
import json
import os

import torch

TABLES, BATCH = 3, 7
folder = os.path.dirname(os.path.abspath(__file__))
os.makedirs(os.path.join(folder, "bad"), exist_ok=True)
g = torch.Generator().manual_seed(1)
lengths = torch.randint(0, 4, (TABLES, BATCH), generator=g)
lengths[1] = 0  # a table without lookups
offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.flatten().cumsum(0)])
indices = torch.randint(0, 50, (int(offsets[-1]),), generator=g)


def view(t):
    """The same numbers, in the middle of a larger storage."""
    return torch.cat([torch.full((5,), -1, dtype=t.dtype), t.flatten(), torch.full((3,), -1, dtype=t.dtype)])[5:-3].view(t.shape)


def save(name, value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    data = buffer.getvalue()
    with open(os.path.join(folder, name), "wb") as f:
        f.write(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)


three = (indices, offsets, lengths)
old = {"_use_new_zipfile_serialization": False}
save("zip.pt", three)
save("zip.pt.gz", three)
save("zip_list.pt", list(three))
save("zip_int32.pt", tuple(t.int() for t in three))
save("zip_views.pt", tuple(view(t) for t in three))
save("zip_protocol4.pt", three, pickle_protocol=4)
save("legacy.pt", three, **old)
save("legacy.pt.gz", tuple(t.int() for t in three), **old)
save("legacy_views.pt", tuple(view(t) for t in three), **old)

save("bad/transposed.pt", (indices, offsets, lengths.t().contiguous().t()))
save("bad/shared.pt", (indices, offsets[:-1], offsets[1:]))
save("bad/floats.pt", (indices, offsets, lengths.float()))
save("bad/two.pt", (indices, offsets))
save("bad/dict.pt", {"indices": indices})
save("bad/big.pt", (indices, offsets, lengths.flatten()))
wrong = lengths.clone()
wrong[2, 3] += 1
save("bad/lengths.pt", (indices, offsets, wrong))
save("bad/short.pt", (indices[:-1], offsets, lengths))
negative = indices.clone()
negative[-1] = -5
save("bad/negative.pt", (negative, offsets, lengths))
fall = offsets.clone()
fall[3] = 99
save("bad/offsets.pt", (indices, fall, lengths))

with open(os.path.join(folder, "torch.json"), "w") as f:
    tables = [
        {
            "lengths": lengths[t].tolist(),
            "indices": indices[int(offsets[t * BATCH]) : int(offsets[(t + 1) * BATCH])].tolist(),
        }
        for t in range(TABLES)
    ]
    json.dump(tables, f)
    f.write("\n")
