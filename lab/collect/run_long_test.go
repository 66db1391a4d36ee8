//go:build long

package collect

import "testing"

func TestTornAtEveryByte(t *testing.T) {
	torn(t, func([]byte, int) bool { return true })
}
