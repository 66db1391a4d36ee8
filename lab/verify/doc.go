// Package verify runs the device groups and all-to-alls of a plan on a backend and
// compares the measured times with the predicted ones.
//
//	Measurable   whether a backend can run a plan (measurable.go)
//	Plan         one plan, run; InTurns runs several (verify.go)
//	Choose       finalists, run in turns, and the one to keep (choose.go)
//	Compare      many plans: do predictions order them, and is a method's measured
//	             cost below the others'? (compare.go)
package verify
