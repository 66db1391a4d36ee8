//go:build long

package main

import "testing"

func TestPlanOfMLPerfIsAsBefore(t *testing.T) { plansAreAsBefore(t, "mlperf-dlrm-dcnv2") }
