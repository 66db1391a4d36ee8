package f32

// layer.go holds the kernels that train dense layers: products that are rectified
// before they are stored, products that read their matrices in place, and sums of
// rows.

// Rectify sets the m x n matrix C to max(0, bias + A B) for the packed k x n
// matrix B: a layer and its ReLU. bias has n elements; C must not overlap the
// others. It gives the bytes of FillRows, MulAdd and ReLU.
func (p *Packed) Rectify(m int, a []float32, lda int, bias, c []float32, ldc int) {
	checkMatrix("A", m, p.k, a, lda)
	checkMatrix("C", m, p.n, c, ldc)
	same("Rectify", len(bias), p.n)
	if !p.fits(m) {
		p.rectify(m, a, lda, bias, c, ldc)
		return
	}
	for i := 0; i < m; i = nextBlock(i, m) {
		forward(p.n/panelN, p.k, &a[i*lda], lda, &p.buf[0], &bias[0], &c[i*ldc], ldc)
	}
}

// rectify does the work of Rectify with separate kernels.
func (p *Packed) rectify(m int, a []float32, lda int, bias, c []float32, ldc int) {
	for i := range m {
		copy(c[i*ldc:i*ldc+p.n], bias)
	}
	p.MulAdd(false, m, a, lda, c, ldc)
	for i := range m {
		relu(c[i*ldc : i*ldc+p.n])
	}
}

// MulMask sets the m x n matrix C to A B where act is above zero, and to zero
// elsewhere, for the packed k x n matrix B: the backward of a layer and of
// the ReLU before it, whose output was act. act has C's shape and leading
// dimension; C must not overlap the others. It gives the bytes of clear,
// MulAdd and Mask.
func (p *Packed) MulMask(m int, a []float32, lda int, act, c []float32, ldc int) {
	checkMatrix("A", m, p.k, a, lda)
	checkMatrix("act", m, p.n, act, ldc)
	checkMatrix("C", m, p.n, c, ldc)
	if !p.fits(m) {
		p.mulMask(m, a, lda, act, c, ldc)
		return
	}
	for i := 0; i < m; i = nextBlock(i, m) {
		back(p.n/panelN, p.k, &a[i*lda], lda, &p.buf[0], &act[i*ldc], &c[i*ldc], ldc)
	}
}

// mulMask does the work of MulMask with separate kernels.
func (p *Packed) mulMask(m int, a []float32, lda int, act, c []float32, ldc int) {
	for i := range m {
		clear(c[i*ldc : i*ldc+p.n])
	}
	p.MulAdd(false, m, a, lda, c, ldc)
	for i := range m {
		mask(c[i*ldc:i*ldc+p.n], act[i*ldc:i*ldc+p.n])
	}
}

// fits says that the product of m rows is one of whole blocks, which the fused
// kernels take.
func (p *Packed) fits(m int) bool {
	return fast && m >= panelM && p.n > 0 && p.n%panelN == 0 && p.k > 0 && p.k <= blockK
}

// nextBlock walks over m rows, at least six, in blocks of six. If m is not a multiple
// of six, the last block overlaps the block before it, and some rows are written
// twice, with the same values.
func nextBlock(i, m int) int {
	if i+panelM < m {
		return min(i+panelM, m-panelM)
	}
	return m
}

// Outer adds A^T B to the m x n matrix C, where A is k x m and B k x n: a
// layer's gradient. Both are read in place, except the last n%16 columns of B, which
// are packed in scratch. It gives the same bytes as Gemm.
func Outer(scratch *Packed, m, n, k int, a []float32, lda int, b []float32, ldb int, c []float32, ldc int) {
	checkMatrix("A", k, m, a, lda)
	checkMatrix("B", k, n, b, ldb)
	checkMatrix("C", m, n, c, ldc)
	if m == 0 || n == 0 || k == 0 {
		return
	}
	whole := n / panelN * panelN
	if !fast {
		whole = 0
	}
	for k0 := 0; k0 < k && whole > 0; k0 += blockK {
		depth := min(blockK, k-k0)
		for i := 0; i < m; {
			rows := outerRows(m - i)
			for j := 0; j < whole; j += panelN {
				outer(rows, depth, &a[k0*lda+i], lda, &b[k0*ldb+j], ldb, &c[i*ldc+j], ldc)
			}
			i += rows
		}
	}
	if whole < n {
		scratch.Pack(false, k, n-whole, b[whole:], ldb)
		scratch.MulAdd(true, m, a, lda, c[whole:], ldc)
	}
}

// outerRows returns the number of rows, of those left, that the next kernel takes: six
// or four if possible, because with fewer rows the multipliers wait for their own sums.
func outerRows(left int) int {
	switch left {
	case 4, 5, 8, 9:
		return 4
	case 1, 2, 3:
		return 1
	}
	return panelM
}

// PickSums sets each row of dst to the sum of rows of src: row i to that of the
// rows listed in picks from offsets[i] up to, not including, offsets[i+1], in
// this order. dst has one row for every two neighbours of offsets, which never
// fall; rows have width elements, and leading dimensions ldd and lds.
func PickSums(width int, offsets, picks []int32, src []float32, lds int, dst []float32, ldd int) {
	lists := max(0, len(offsets)-1)
	checkMatrix("dst", lists, width, dst, ldd)
	if lists == 0 {
		return
	}
	for i := range lists {
		if offsets[i] < 0 || offsets[i+1] < offsets[i] {
			panic("f32: PickSums: offsets fall")
		}
	}
	most := int32(-1)
	for _, pick := range picks[offsets[0]:offsets[lists]] {
		if pick < 0 {
			panic("f32: PickSums: a row below zero")
		}
		most = max(most, pick)
	}
	checkMatrix("src", int(most)+1, width, src, lds)
	done := 0
	if fast && most >= 0 {
		for _, columns := range []int{32, 16} {
			for ; done+columns <= width; done += columns {
				pickSums(columns, offsets, picks[offsets[0]:], src[done:], lds, dst[done:], ldd)
			}
		}
	}
	if done < width {
		pickSumsGeneric(width-done, offsets, picks, src[min(done, len(src)):], lds, dst[done:], ldd)
	}
}

func pickSumsGeneric(width int, offsets, picks []int32, src []float32, lds int, dst []float32, ldd int) {
	for i, first := range offsets[:len(offsets)-1] {
		row := dst[i*ldd : i*ldd+width]
		clear(row)
		for _, pick := range picks[first:offsets[i+1]] {
			addGeneric(row, src[int(pick)*lds:int(pick)*lds+width])
		}
	}
}

// sumRows adds the rows of src to dst.
func sumRows(dst, src []float32) {
	width, done := len(dst), 0
	if fast && len(src) > 0 {
		for _, columns := range []int{32, 16} {
			for ; done+columns <= width; done += columns {
				sumRowsFast(columns, len(src)/width, src[done:], width, dst[done:])
			}
		}
		if done == width {
			return
		}
	}
	for i := 0; i < len(src); i += width {
		add(dst[done:], src[i+done:i+width])
	}
}
