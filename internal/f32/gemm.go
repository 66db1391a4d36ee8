package f32

import "fmt"

// The matrix product, after Goto and van de Geijn ("Anatomy of high-performance
// matrix multiplication", ACM TOMS 34(3), 2008), cut down to tall, narrow
// products. The right-hand matrix is packed into panels that a micro-kernel
// reads in order; the left-hand one is read in place, six rows at a time:
//
//	          B, packed              for each block of blockK rows of B
//	          |16 |16 |..|             for each 6 rows of A
//	A  6 rows [c  |   |  ]               for each 16 columns of B
//	   6 rows [   |   |  ]                 c += A's rows * B's panel
//
// A 6x16 block of C fills 12 of the 16 vector registers during the sum. A's
// rows are broadcast one element at a time, by two strides, so its transpose
// costs nothing but the other order of strides.

const (
	panelM = 6   // rows of a micro-kernel
	panelN = 16  // columns of a micro-kernel: two vectors of eight
	blockK = 256 // rows of B in one block: a panel of 16 KiB stays in L1
)

// Packed is a right-hand matrix of a product, made ready by Pack and used by
// MulAdd. It keeps its memory between uses. Many goroutines may read it at the
// same time.
type Packed struct {
	k, n  int
	trans bool
	b     []float32 // the matrix itself, for the portable path
	ldb   int
	buf   []float32 // its panels, for the assembly path
}

// Pack takes a k x n matrix: b itself, or if trans the transpose of b, which
// then is n x k. b must stay as it is for as long as p is used.
func (p *Packed) Pack(trans bool, k, n int, b []float32, ldb int) {
	if trans {
		checkMatrix("B", n, k, b, ldb)
	} else {
		checkMatrix("B", k, n, b, ldb)
	}
	p.k, p.n, p.trans, p.b, p.ldb = k, n, trans, b, ldb
	if fast {
		p.pack()
	}
}

// MulAdd adds op(A) B to C, where B is the packed k x n matrix, C is m x n, and
// op(A) is m x k: a itself, or if transA the transpose of a, which then is
// k x m. C must not overlap A or B.
func (p *Packed) MulAdd(transA bool, m int, a []float32, lda int, c []float32, ldc int) {
	if transA {
		checkMatrix("A", p.k, m, a, lda)
	} else {
		checkMatrix("A", m, p.k, a, lda)
	}
	checkMatrix("C", m, p.n, c, ldc)
	if fast {
		p.mulAdd(transA, m, a, lda, c, ldc)
		return
	}
	gemmPortable(transA, p.trans, m, p.n, p.k, a, lda, p.b, p.ldb, c, ldc)
}

// Gemm adds op(A) op(B) to the m x n matrix C, where op(A) is m x k and op(B)
// k x n. It packs B on every call; to use B or the memory again, use Packed.
func Gemm(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	var p Packed
	p.Pack(transB, k, n, b, ldb)
	p.MulAdd(transA, m, a, lda, c, ldc)
}

// pack copies the matrix into panels: block by block of rows, panel by panel
// of columns, row by row, 16 columns; missing columns are zero.
func (p *Packed) pack() {
	panels := (p.n + panelN - 1) / panelN
	size := p.k * panels * panelN
	if cap(p.buf) < size {
		p.buf = make([]float32, size)
	}
	p.buf = p.buf[:size]
	dst := p.buf
	for k0 := 0; k0 < p.k; k0 += blockK {
		rows := min(blockK, p.k-k0)
		for j := 0; j < p.n; j += panelN {
			panel := dst[:rows*panelN]
			dst = dst[rows*panelN:]
			if columns := min(panelN, p.n-j); p.trans {
				packTransposed(panel, rows, columns, p.b[j*p.ldb+k0:], p.ldb)
			} else {
				packStraight(panel, rows, columns, p.b[k0*p.ldb+j:], p.ldb)
			}
		}
	}
}

func packStraight(panel []float32, rows, columns int, b []float32, ldb int) {
	if columns == panelN {
		for r := range rows {
			*(*[panelN]float32)(panel[r*panelN:]) = *(*[panelN]float32)(b[r*ldb:])
		}
		return
	}
	for r := range rows {
		row := panel[r*panelN : r*panelN+panelN]
		clear(row[copy(row, b[r*ldb:r*ldb+columns]):])
	}
}

func packTransposed(panel []float32, rows, columns int, b []float32, ldb int) {
	if columns < panelN {
		clear(panel)
	}
	for j := range columns {
		for r, v := range b[j*ldb : j*ldb+rows] {
			panel[r*panelN+j] = v
		}
	}
}

// mulAdd walks C in blocks of 6x16, each one call of the micro-kernel.
func (p *Packed) mulAdd(transA bool, m int, a []float32, lda int, c []float32, ldc int) {
	strideRow, strideK := lda, 1
	if transA {
		strideRow, strideK = 1, lda
	}
	width := (p.n + panelN - 1) / panelN * panelN
	var edge [panelM * panelN]float32
	for k0 := 0; k0 < p.k; k0 += blockK {
		depth := min(blockK, p.k-k0)
		block := p.buf[k0*width : (k0+depth)*width]
		for i, rows := 0, 0; i < m; i += rows {
			rows = kernelRows(m - i)
			left := &a[i*strideRow+k0*strideK]
			for j := 0; j < p.n; j += panelN {
				panel := &block[j*depth]
				if columns := p.n - j; columns < panelN {
					clear(edge[:])
					kernel(rows, depth, left, strideRow, strideK, panel, &edge[0], panelN)
					for r := range rows {
						for q, v := range edge[r*panelN : r*panelN+columns] {
							c[(i+r)*ldc+j+q] += v
						}
					}
					continue
				}
				kernel(rows, depth, left, strideRow, strideK, panel, &c[i*ldc+j], ldc)
			}
		}
	}
}

// kernelRows returns the number of rows, of those left, that the next kernel takes.
func kernelRows(left int) int {
	if left < panelM && left > 1 {
		return left &^ 1
	}
	return min(left, panelM)
}

// checkMatrix panics unless a slice can hold rows x columns.
func checkMatrix(name string, rows, columns int, a []float32, ld int) {
	switch {
	case rows < 0 || columns < 0:
		panic(fmt.Sprintf("f32: matrix %s: negative size %d x %d", name, rows, columns))
	case ld < columns:
		panic(fmt.Sprintf("f32: matrix %s: leading dimension %d is below %d columns", name, ld, columns))
	case rows > 0 && columns > 0 && len(a) < (rows-1)*ld+columns:
		panic(fmt.Sprintf("f32: matrix %s: length %d is too short for %d x %d with leading dimension %d", name, len(a), rows, columns, ld))
	}
}
