// Package trace reads logs of real lookups, table by table in bounded memory,
// and turns them into tables: rows, pooling factors and reuse histograms.
//
//	Open           a file -> Reader; what the file is, its first bytes tell
//	Reader.Next    the next table's lookups, as bags of package indices
//	Profile        one table's lookups -> problem.Table
//	ReadTables     all of the above for a whole file (tables.go)
//
// Two kinds of file are read. The lookups of a benchmark of FBGEMM, as
// published in facebookresearch/dlrm_datasets, are what torch.save wrote of
// three tensors (torch.go). Logs of one's own are CSV or Parquet with a row for
// each lookup (log.go). Both may be much larger than memory: at any time that
// holds the lookups of one table, and what else is needed is in a temporary
// file, which has no name while it is used, so that nothing is left behind.
package trace
