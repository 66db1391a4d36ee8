package search

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

var debugging = os.Getenv("RACE_DEBUG") != ""

func debugf(format string, args ...any) {
	if debugging {
		fmt.Fprintf(os.Stderr, format, args...)
	}
}

func knob(name string, fallback float64) float64 {
	for _, item := range strings.Split(os.Getenv("KNOBS"), ",") {
		if k, v, ok := strings.Cut(item, "="); ok && k == name {
			f, _ := strconv.ParseFloat(v, 64)
			return f
		}
	}
	return fallback
}

func (c *course) formsOf(parts []placed) (text string) {
	counts := map[string][]int{}
	for _, p := range parts {
		k := &c.r.catalog.pieces[p.piece]
		if k.span != oneDevice || k.form.Tier != "" {
			key := string(k.form.ShardingType) + string(k.form.Tier)
			counts[key] = append(counts[key], k.members[0].table)
		}
	}
	return fmt.Sprint(counts)
}
