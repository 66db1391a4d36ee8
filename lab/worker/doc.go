// Package worker is the CPU meter: a process that speaks package protocol on
// its stdin and stdout and runs package engine, and all-to-alls between
// processes over loopback.
//
//	Serve      answers requests: the worker's main
//	ServeRank  is one rank of an all-to-all: the main of a process that Serve starts
//
// A request for times is served in these steps. The lookups were made up when
// its tables came. The group's weights and optimizer state are windows of one
// large block of memory, which is filled once and used again by every group.
// The engine prepares an operation; then, for each repeat, the caches are
// flushed, and forward and backward are timed. Nothing is allocated and no
// garbage collected meanwhile.
//
// docs/PROTOCOL.md describes the messages for whoever writes another worker.
package worker
