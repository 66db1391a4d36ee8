//go:build long

package prototype_test

const everyTask = 1
