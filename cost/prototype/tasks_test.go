//go:build !long

package prototype_test

// everyTask is the step through the prototype's published results: quick tests compare every eighth.
const everyTask = 8
