"""TorchRec's planner and neuroshard's side by side, on the same tables and cluster.

``python -m neuroshard_compare --out FOLDER`` plans each scenario with both, and
estimates every plan with TorchRec's own estimator and, if that is possible, on
neuroshard's SIMULATED device, and writes one table. docs/ENGINES.md has its result.
``python -m neuroshard_compare MODULE:FUNCTION`` does so for a model of the user's.

The steps, in order: a ``scenario`` is read; ``torchrec_planner`` and ``binary`` make
a ``placement`` of it each, in a process of its own; both judges estimate it; ``report``
writes the table. For a model of the user's ``model`` does all this, with ``torchrec_model``.
``times`` measures how long both planners take. ``anytime`` writes plans of TorchRec's proposers
and of a solver, with their times, for ``neuroshard bench --beside``. ``estimates`` and
``storages`` write what TorchRec's estimators say of drawn shards, for tests. Only these four and
those named for TorchRec import TorchRec.
"""
