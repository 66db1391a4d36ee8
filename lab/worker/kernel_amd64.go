//go:build amd64 && !noasm

package worker

import "golang.org/x/sys/cpu"

// assembly says that the engine's inner loops run as assembly: the condition of
// package f32.
var assembly = cpu.X86.HasAVX2 && cpu.X86.HasFMA
