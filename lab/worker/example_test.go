package worker_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/neuroshard/neuroshard/lab/worker"
	"github.com/neuroshard/neuroshard/unit"
)

// A conversation that measures nothing, so that its responses are the same on
// every machine. testdata holds a longer one.
func ExampleServe() {
	requests := `{"op":"init","batch":512,"warmup":1,"repeats":5,"cache":"warm","seed":7}
{"op":"tables","tables":[{"t":0,"rows":1000,"pooling_factor":0.5,"unique_rows":192,"reuse":[0.75,0.2,0.05]}]}
{"op":"compute","id":"s1","group":[{"t":0,"dim":30}],"opt":"sgd","dtype":"fp32"}
`
	err := worker.Serve(context.Background(), strings.NewReader(requests), os.Stdout, worker.Options{Memory: 16 * unit.MiB})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"op":"init","cache":"warm"}
	// {"op":"tables","tables":[{"t":0,"length_cv":1,"unique_rows":192,"reuse":[0.75,0.19791666666666666,0.052083333333333336,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}
	// {"op":"error","id":"s1","code":"bad_request","msg":"group: dim 30 of table 0 is not a multiple of 4 between 4 and 16384"}
}
