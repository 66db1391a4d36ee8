package design_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

func profile(t testing.TB, name string) hardware.Profile {
	t.Helper()
	hw, err := hardware.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return hw
}

func model(t testing.TB, name string) *cost.Model {
	t.Helper()
	file, err := pretrained.File(name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := cost.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
