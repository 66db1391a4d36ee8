package published

import (
	"strings"
	"testing"
)

func TestBadPoints(t *testing.T) {
	header, row, _ := strings.Cut(pointsCSV, "\n")
	row, _, _ = strings.Cut(row, "\n")
	for _, c := range []struct{ from, to, want string }{
		{",a100-80,", ",gtx,", `points.csv:2: device profile "gtx" is unknown`},
		{",sum,", ",most,", `points.csv:2: pooling "most" is unknown`},
		{",sgd,", ",lamb,", `points.csv:2: optimizer "lamb" is unknown`},
		{",121.216,", ",fast,", `points.csv:2: us: "fast" is not a number`},
		{",121.216,", ",1,2,", "points.csv: record on line 2: wrong number of fields"},
	} {
		if _, err := readPoints(header + "\n" + strings.Replace(row, c.from, c.to, 1) + "\n"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in place of %s: got error %v, want %q", c.to, c.from, err, c.want)
		}
	}
}

// The profiles, operators and times of all points are those of the file.
func TestPoints(t *testing.T) {
	points, err := Points()
	if err != nil {
		t.Fatal(err)
	}
	if len(points) != 35 {
		t.Errorf("got %d points, want 35", len(points))
	}
	for i := range points {
		p := &points[i]
		if got := p.Predict(p.Device, 0); !(got > 0 && p.US > 0) || p.Place() == "" || p.Limit() == "" {
			t.Errorf("point %d: got %v us predicted, %v measured, place %q, limit %q", i, got, p.US, p.Place(), p.Limit())
		}
	}
}
