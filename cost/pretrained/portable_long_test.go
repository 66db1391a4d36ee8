//go:build long && (!amd64 || noasm)

package pretrained_test

// shippedKernels says that this build rounds like the one that made the shipped
// models. It does not.
const shippedKernels = false
