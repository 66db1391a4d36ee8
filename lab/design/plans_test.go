package design_test

import (
	"testing"

	"github.com/neuroshard/neuroshard/cost"
	"github.com/neuroshard/neuroshard/cost/pretrained"
	"github.com/neuroshard/neuroshard/internal/must"
)

func model(t testing.TB, name string) *cost.Model {
	t.Helper()
	file := must.Get(pretrained.File(name))(t)
	return must.Get(cost.Load(file))(t)
}
