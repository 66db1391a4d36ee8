package searchtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/neuroshard/neuroshard/problem"
)

// Digest returns a short text that stands for a placement, given the shards of each
// device: it depends on the device, table, rows and columns of each shard. Tests use it
// to pin a placement.
func Digest(shards [][]problem.Shard) string {
	h := sha256.New()
	for d, held := range shards {
		for _, s := range held {
			fmt.Fprintln(h, d, s.Table, s.Rows.Start, s.Rows.End, s.Columns.Start, s.Columns.End)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
