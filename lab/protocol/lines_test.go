package protocol_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/lab/protocol"
)

func ExampleReader() {
	r := protocol.NewReader(strings.NewReader("{\"op\":\"hello\",\"v\":1}\n\n  {\"op\":\"init\"}"))
	for {
		line, err := r.Line()
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Printf("%s\n", line)
	}
	// Output:
	// {"op":"hello","v":1}
	// {"op":"init"}
	// EOF
}

func ExampleWrite() {
	err := protocol.Write(os.Stdout, protocol.Request{Op: protocol.OpCompute, ID: "s1", Group: []protocol.Member{{T: 0, Dim: 64}}, Opt: "sgd", DType: "fp32"})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"op":"compute","id":"s1","group":[{"t":0,"dim":64}],"opt":"sgd","dtype":"fp32"}
}

func TestLongLine(t *testing.T) {
	fits := strings.Repeat("x", protocol.MaxLine-1)
	r := protocol.NewReader(strings.NewReader(fits + "\n" + fits + "xx\nnext\n"))
	if line, err := r.Line(); err != nil || len(line) != len(fits) {
		t.Fatalf("a line of MaxLine with its end: got %d bytes, %v", len(line), err)
	}
	if line, err := r.Line(); !errors.Is(err, protocol.ErrLong) {
		t.Fatalf("a longer line: got %d bytes, %v, want ErrLong", len(line), err)
	}
	if _, err := r.Line(); !errors.Is(err, protocol.ErrLong) {
		t.Fatalf("after it: got %v, want ErrLong", err)
	}
}

func TestReaderPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken pipe")
	r := protocol.NewReader(io.MultiReader(strings.NewReader("a\n"), failing{broken}))
	if line, err := r.Line(); string(line) != "a" || err != nil {
		t.Fatalf("got %q, %v", line, err)
	}
	if _, err := r.Line(); !errors.Is(err, broken) {
		t.Fatalf("got %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestWriteRefuses(t *testing.T) {
	var out bytes.Buffer
	if err := protocol.Write(&out, protocol.Response{Op: protocol.OpCompute, ForwardMS: math.NaN()}); err == nil || out.Len() > 0 {
		t.Errorf("NaN: got %q, %v, want an error and nothing written", out.String(), err)
	}
	if err := protocol.Write(&out, strings.Repeat("x", protocol.MaxLine)); !errors.Is(err, protocol.ErrLong) || out.Len() > 0 {
		t.Errorf("long: got %d bytes, %v, want ErrLong and nothing written", out.Len(), err)
	}
	if err := protocol.Write(failing{io.ErrClosedPipe}, 1); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want %v", err, io.ErrClosedPipe)
	}
}
