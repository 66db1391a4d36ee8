// Package trace reads logs of real lookups, table by table in bounded memory,
// and turns them into tables: rows, pooling factors and reuse histograms.
//
//	ReadTables     a file -> problem.Tables; the first bytes decide the format
//	Known.Enrich   existing tables, with the accesses of a trace (enrich.go)
//
// The package reads two sorts of files. The lookups of an FBGEMM benchmark, as
// published in facebookresearch/dlrm_datasets, are three tensors that torch.save
// wrote (torch.go). A user's own logs (log.go) are text or Parquet, with a row for each
// lookup, or with a row for each sample, as Criteo's (wide.go, lists.go). Ids that are not
// rows are hashed to rows (ids.go). Both may be much larger than memory: memory holds the lookups of one
// table at a time, and a temporary file holds the rest. The temporary file has no
// name while it is used, so it is never left behind.
//
// Options and the reading of tables are in reader.go, and their statistics in profile.go. csv.go and
// parquet.go read the rows of a user's own log. stream.go reads compressed files, and
// spill.go is the temporary file.
package trace
