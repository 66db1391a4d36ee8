"""Makes the Parquet files in this folder, as Arrow writes them, and log.csv, the
same log.

    python make_parquet.py

Made with pyarrow 26.0.
"""

import os
import random

import pyarrow as pa
import pyarrow.parquet as pq

folder = os.path.dirname(os.path.abspath(__file__))
r = random.Random(1)
rows = sorted((r.randrange(20), r.choice(["1", "3", "20"]), r.randrange(1000)) for _ in range(300))
with open(os.path.join(folder, "log.csv"), "w") as f:
    f.write("sample,table,index\n")
    for row in rows:
        f.write("%d,%s,%d\n" % row)
sample, table, index = zip(*rows)


def save(name, types, **options):
    columns = {
        "index": pa.array(index, types[2]),
        "weight": pa.array([x / 7 for x in index], pa.float32()),
        "table": pa.array(table if types[1] == pa.string() else [int(t) for t in table], types[1]),
        "Sample": pa.array(sample, types[0]),
    }
    pq.write_table(pa.table(columns), os.path.join(folder, name), **options)


whole = (pa.int64(), pa.string(), pa.int64())
save("snappy.parquet", whole)
save("zstd_v2.parquet", whole, compression="zstd", data_page_version="2.0", row_group_size=77)
save("plain.parquet", (pa.int32(), pa.int32(), pa.int32()), compression="none", use_dictionary=False, data_page_size=100)
save("unsigned.parquet", (pa.uint32(), pa.uint64(), pa.uint32()), compression="gzip")
save("delta.parquet", whole, compression="snappy", use_dictionary=False,
     column_encoding={"Sample": "DELTA_BINARY_PACKED", "index": "DELTA_BINARY_PACKED", "table": "DELTA_BYTE_ARRAY", "weight": "PLAIN"})
os.makedirs(os.path.join(folder, "bad"), exist_ok=True)
save("bad/lz4.parquet", whole, compression="lz4")
save("bad/float.parquet", (pa.int64(), pa.string(), pa.float64()))
pq.write_table(pa.table({"sample": [1, 2], "table": ["a", "a"], "index": pa.array([5, None], pa.int64())}), os.path.join(folder, "bad/null.parquet"))
pq.write_table(pa.table({"sample": [1], "table": ["a"], "index": [[5, 6]]}), os.path.join(folder, "bad/list.parquet"))
pq.write_table(pa.table({"sample": [1], "table": ["a"]}), os.path.join(folder, "bad/missing.parquet"))
pq.write_table(pa.table({"sample": [1], "table": ["a"], "index": [-7]}), os.path.join(folder, "bad/negative.parquet"))
