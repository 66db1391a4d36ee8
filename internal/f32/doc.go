// Package f32 provides float32 kernels: for small dense networks, a matrix product
// and the vector loops around it; for embedding tables, sums of picked rows.
//
// Every kernel has a plain Go loop in generic.go, which defines its result and is its
// test oracle. On amd64 processors with AVX2 and FMA, which the package detects at
// run time, an assembly twin does the work. On other processors, and with the build
// tag noasm, the portable path does the work: gonum's Sgemm for products, the plain
// loops for the rest. README.md lists the twins and the tricks, and the command that measures them.
//
// Matrices are row-major slices with a leading dimension: element (i, j) of a
// matrix with leading dimension ld is at i*ld + j.
//
// Determinism: every element is computed by one goroutine, in an order that
// depends on nothing but the shapes, so the same input gives the same bytes on
// one build. On the assembly path an element of a product depends only on its
// own row, its own column and its old value, so a row also gives the same bytes
// in any batch; the portable path does not promise that.
//
// Element-wise kernels give the same bytes on every path. Gemm, Packed.MulAdd
// and Dot differ between paths by rounding: the assembly fuses multiply and
// add, and sums in another order.
//
// Wrong lengths are a caller's bug and panic with the prefix "f32:". The rows that
// a Gather picks are not checked. Only a Packed that grows allocates memory.
package f32

//go:generate go -C gen run . -out ../twins_amd64.s -stubs ../stubs_amd64.go -pkg f32
