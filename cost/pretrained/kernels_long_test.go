//go:build long && amd64 && !noasm

package pretrained_test

import "golang.org/x/sys/cpu"

// shippedKernels says that this build rounds like the one that made the shipped
// models: with the assembly of internal/f32.
var shippedKernels = cpu.X86.HasAVX2 && cpu.X86.HasFMA
