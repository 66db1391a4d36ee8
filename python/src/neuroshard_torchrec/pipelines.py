"""The training loop's pipeline, in the program's words."""

from __future__ import annotations

from typing import Any

from .errors import InputError, Problem, shown

_KINDS = {
    "PrefetchTrainPipelineSparseDist": "prefetch",
    "TrainPipelineSemiSync": "semi-sync",
    "TrainPipelineSparseDist": "sparse-dist",
    "StagedTrainPipeline": "sparse-dist",
    "TrainPipelineBase": "base",
}
"""The kind of each class of TorchRec that others inherit."""

_OPTIONS = (
    "enqueue_batch_after_forward",
    "free_features_storage_early",
    "clear_data_dist_inputs",
)
"""Options of TrainPipelineSparseDist that change its memory; TorchRec keeps each behind a ``_``."""


def spec(pipeline: Any) -> str | None:
    """Returns a pipeline, such as "sparse-dist+clear_data_dist_inputs", of that text, or of a
    pipeline of TorchRec or its class, by the nearest one that it inherits. The program checks a
    text. InputError for all else."""
    if pipeline is None or isinstance(pipeline, str):
        return pipeline
    made = pipeline if isinstance(pipeline, type) else type(pipeline)
    kind = next((_KINDS[c.__name__] for c in made.__mro__ if c.__name__ in _KINDS), None)
    if kind is None:
        message = f"pipeline {shown(pipeline)} is no pipeline of TorchRec that is known"
        hint = f"pass one of {', '.join(_KINDS)}, or a text such as "
        hint += f"{', '.join(dict.fromkeys(_KINDS.values()))} or sparse-dist+{_OPTIONS[-1]}"
        raise InputError([Problem(message, hint)])
    stated = _OPTIONS if kind == "sparse-dist" else ()
    return "+".join([kind, *(o for o in stated if getattr(pipeline, f"_{o}", False))])
