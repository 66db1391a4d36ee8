package search

import (
	"fmt"
	"os"
	"sort"

	"github.com/neuroshard/neuroshard/problem"
)

func dump(p *problem.Problem, shards [][]problem.Shard) {
	if os.Getenv("DUMP") == "" {
		return
	}
	lines := map[string][]int{}
	for d, list := range shards {
		for _, s := range list {
			t := p.Tables[s.Table]
			key := fmt.Sprintf("%3d %-14.14s rows %d dim %d pool %.1f | %d-%d %s %s %.2f op%d", s.Table, t.Name, t.Rows, t.Dim, t.PoolingFactor(), s.Columns.Start, s.Columns.End, s.ShardingType, s.Tier, s.Cache, s.Operator)
			lines[key] = append(lines[key], d)
		}
	}
	var keys []string
	for k := range lines {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		fmt.Println(k, lines[k])
	}
}
