"""Writes the tables file from the model; pooling factors are counted in a batch."""

from model import BATCH, Model, draw
from neuroshard_torchrec import tables_from_model, write_tables

write_tables(tables_from_model(Model(), batch=2 * BATCH, sample=draw()), "my_tables.json")
