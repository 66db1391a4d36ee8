// Package peaks knows the largest of a list of numbers that change one at a time.
//
//	numbers   3 1 4 | 1 5 9 | 2 6 5
//	blocks      4   |   9   |   6      the largest is 9
//
// The list is cut into blocks, and the largest number of each block is kept. A number that
// rises may raise its block's largest at once. If the largest number of a block falls, the block
// is read again when the largest of all is asked for. So after few changes of n numbers, the
// largest is found in about n/64 + 64 steps.
package peaks

import "cmp"

// size is the number of numbers in a block.
const size = 64

// List is a list of numbers. Only one goroutine may use it.
//
// No number should be NaN. Set and Fill accept NaN, but afterwards Max may return the largest of the
// other numbers, or it may return NaN until the next Fill with a number.
type List[T cmp.Ordered] struct {
	values []T
	// most holds the largest number of each block. It is too high in a block that is stale.
	most  []T
	stale []bool
}

// New returns a list of n zeros; n is at least 1.
func New[T cmp.Ordered](n int) *List[T] {
	blocks := (n + size - 1) / size
	return &List[T]{values: make([]T, n), most: make([]T, blocks), stale: make([]bool, blocks)}
}

// Values returns the numbers. They must not be modified.
func (l *List[T]) Values() []T { return l.values }

// Set changes number i.
func (l *List[T]) Set(i int, value T) {
	block := i / size
	was := l.values[i]
	l.values[i] = value
	switch {
	case value >= l.most[block]:
		l.most[block], l.stale[block] = value, false
	case was == l.most[block]:
		l.stale[block] = true
	}
}

// Fill sets all numbers to one value.
func (l *List[T]) Fill(value T) {
	for i := range l.values {
		l.values[i] = value
	}
	for block := range l.most {
		l.most[block], l.stale[block] = value, false
	}
}

// Max returns the largest number.
func (l *List[T]) Max() T {
	for block, stale := range l.stale {
		if stale {
			l.read(block)
		}
	}
	most := l.most[0]
	for _, m := range l.most[1:] {
		most = max(most, m)
	}
	return most
}

// read finds the largest number of a block.
func (l *List[T]) read(block int) {
	values := l.values[block*size : min(len(l.values), (block+1)*size)]
	most := values[0]
	for _, v := range values[1:] {
		most = max(most, v)
	}
	l.most[block], l.stale[block] = most, false
}
