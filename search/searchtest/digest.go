package searchtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/neuroshard/neuroshard/problem"
)

// Digest stands for a placement, shards listed by device: for the device, table, rows
// and columns of each shard. It is for tests that a placement stays what it was.
func Digest(shards [][]problem.Shard) string {
	h := sha256.New()
	for d, held := range shards {
		for _, s := range held {
			fmt.Fprintln(h, d, s.Table, s.Rows.Start, s.Rows.End, s.Columns.Start, s.Columns.End)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
