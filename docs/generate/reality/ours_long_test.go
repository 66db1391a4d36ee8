//go:build long

package main

import (
	"bytes"
	"testing"
)

// testdata/our_plans.csv is what the planner finds today.
func TestOurPlans(t *testing.T) {
	var got bytes.Buffer
	if err := writePlans(&got); err != nil {
		t.Fatal(err)
	}
	want, err := testdata.ReadFile("testdata/our_plans.csv")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("the planner finds other plans than testdata/our_plans.csv: run go run ./docs/generate/reality plans > docs/generate/reality/testdata/our_plans.csv")
	}
}
