# The sharding of 5 tables over 4 GPUs, for ebc_config.shard(shard_matrix=shard_matrix, shard_strategy=shard_strategy, compression_strategy=compression_strategy).
# Written by neuroshard convert; made by "neuroshard 0.1.0, method hand, input 9622777eaacf6014181e3e4d178387fe3c33cf338a61875363bf31b4b0abacdd".
# Predicted cost 12.8 ms, by a model trained on SIMULATED kernels.
# "HugeCTR has one slice of a table on a GPU: the slices on a GPU were joined for 1 of 5 tables, \"cut\"; predicted times are of the plan as it was; plan with --engine hugectr"
# "HugeCTR does not let a plan divide its operators: the numbers of operators were left out for 1 of 5 tables, \"tiny\"; predicted times are of the plan as it was; plan with --engine hugectr"
shard_matrix = [
    ["word", "tiny"],
    ["word", "tiny", "cut"],
    ["word", "over.ebc/user", "tiny"],
    ["user", "word", "over.ebc/user", "tiny", "cut"],
]
shard_strategy = [
    ("mp", ["user", "word", "over.ebc/user", ("cut", 2)]),
    ("dp", ["tiny"]),
]
compression_strategy = {
    hugectr.CompressionStrategy.Unique: ["user"],
    hugectr.CompressionStrategy.Reduction: ["word", "over.ebc/user", "cut"],
}
