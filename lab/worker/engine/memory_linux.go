package engine

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the least size for which huge pages are requested: the size of one on
// amd64, and on arm64 with 4 KiB pages.
const hugePage = 2 << 20

// advise requests huge pages for memory. If the system refuses, ordinary pages are
// used, which are slower.
func advise(memory []byte) {
	base := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	skip := int(-base & (hugePage - 1))
	if len(memory) < skip+hugePage {
		return
	}
	whole := (len(memory) - skip) &^ (hugePage - 1)
	_ = unix.Madvise(memory[skip:skip+whole], unix.MADV_HUGEPAGE)
}
