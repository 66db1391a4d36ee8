"""TorchRec's planner and neuroshard's side by side on a model of the user's.

``python -m neuroshard_compare MODULE:FUNCTION`` is what ``neuroshard compare`` runs. ``model``
reads the command line, calls the function and plans; ``torchrec_model`` is TorchRec's planner and
its estimators; ``report`` writes the table.
"""
