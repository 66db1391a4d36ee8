# The sharding of 5 tables over 4 GPUs, for ebc_config.shard(shard_matrix=shard_matrix, shard_strategy=shard_strategy).
# Written by neuroshard export; made by "neuroshard 0.1.0, method hand, input e03b1378c609ef7612121ffdd8bc8af04aae7af136d78cefee5524a2b7f3f4d9".
# Predicted cost 12.8 ms, by a model trained on SIMULATED kernels.
shard_matrix = [
    ["word", "tiny"],
    ["word", "tiny", "cut"],
    ["word", "over.ebc/user", "tiny"],
    ["user", "over.ebc/user", "tiny", "cut"],
]
shard_strategy = [
    ("mp", ["user", "word", "over.ebc/user", ("cut", 2)]),
    ("dp", ["tiny"]),
]
