// Package must stops a test at an error that the test does not expect, and holds texts to golden files:
//
//	pl := must.Get(plan.Load(name))(t)
//	must.Do(t, f.Close())
//	must.Match(t, "testdata/plan.json", got)
package must

// T is a test, a benchmark, a fuzz target or a property.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Get takes the two results of a call. The function that it returns gives the first one, or stops the
// test at the error.
func Get[V any](value V, err error) func(t T) V {
	return func(t T) V {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Do stops the test if there is an error.
func Do(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get2 is Get of a call with two values.
func Get2[V, W any](value V, other W, err error) func(t T) (V, W) {
	return func(t T) (V, W) {
		t.Helper()
		Do(t, err)
		return value, other
	}
}
