package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/problem/hardware"
)

func ExampleRunCases() {
	in := `{"compute": [{"id": "one table", "profile": "v100-32", "batch": 65536, "weight_bytes": 4,
	  "optimizer": "sgd", "tables": [
	    {"rows": 1000000, "dim": 128, "pooling_factor": 10, "reuse": null}]}]}`
	if err := RunCases(strings.NewReader(in), os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// {"source":"simulated","model_version":"5","compute":[{"id":"one table","forward_ms":0.555762152477604,"backward_ms":1.6443919109040372}],"comm":[]}
}

const (
	goodCompute = `{"id":1,"profile":"a100-80","batch":512,"weight_bytes":4,"optimizer":"sgd","tables":[{"rows":1000,"dim":8,"pooling_factor":3,"reuse":null}]}`
	goodComm    = `{"id":1,"profile":"a100-80","ranks":2,"ranks_per_node":2,"global_batch":512,"dim_sums":[8,16],"start_ms":[0,1.5]}`
)

func TestIDsAreKept(t *testing.T) {
	for _, id := range []string{`0`, `-3.50`, `1e400`, `12345678901234567890`, `"a b"`, `"\u00e9\"<"`} {
		in := fmt.Sprintf(`{"compute":[%s],"comm":[%s]}`, strings.Replace(goodCompute, `"id":1`, `"id": `+id, 1), strings.Replace(goodComm, `"id":1`, `"id":`+id+` `, 1))
		var out bytes.Buffer
		if err := RunCases(strings.NewReader(in), &out); err != nil {
			t.Fatalf("id %s: %v", id, err)
		}
		var got struct {
			Compute, Comm []struct{ ID json.RawMessage }
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		var sent, back any
		for _, raw := range []json.RawMessage{got.Compute[0].ID, got.Comm[0].ID} {
			if id[0] != '"' {
				if string(raw) != id {
					t.Errorf("id: got %s, want %s", raw, id)
				}
				continue
			}
			if json.Unmarshal(raw, &back) != nil || json.Unmarshal([]byte(id), &sent) != nil || back != sent {
				t.Errorf("id: got %s, want %s", raw, id)
			}
		}
	}
}

func TestDefaultsOfCases(t *testing.T) {
	short := `{"compute":[` + goodCompute + `],"comm":[` + goodComm + `]}`
	long := strings.NewReplacer(`"batch":512`, `"batch":512.0,"output_bytes":4,"index_bytes":null,"weighted":false,"launch_mode":null,"forward_ms":1,"other":[{}]`,
		`"dim":8`, `"dim":8,"features":1,"unique_rows":null`, `"dim_sums"`, `"element_bytes":4,"dim_sums"`).Replace(`{"note":"any",` + short[1:])
	var a, b bytes.Buffer
	if err := RunCases(strings.NewReader(short), &a); err != nil {
		t.Fatal(err)
	}
	if err := RunCases(strings.NewReader(long), &b); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Errorf("with the defaults written out: got %s, want %s", b.String(), a.String())
	}
}

func TestWrongCases(t *testing.T) {
	compute := func(old, new string) string {
		return `{"compute":[` + strings.Replace(goodCompute, old, new, 1) + `]}`
	}
	comm := func(old, new string) string {
		return `{"comm":[` + strings.Replace(goodComm, old, new, 1) + `]}`
	}
	for _, test := range []struct{ in, want string }{
		{compute(`a100-80`, `a100-81`), `compute[0]: device profile "a100-81" is unknown`},
		{compute(`"batch":512`, `"batch":0`), `batch: 0 is not between 1 and`},
		{compute(`"batch":512`, `"batch":"NaN"`), `line 1: compute[0].batch: a string is not a finite number`},
		{compute(`"batch":512,`, ``), `batch: missing`},
		{compute(`"batch":512`, `"batch":1.5`), `batch: 1.5 is not a whole number`},
		{compute(`"weight_bytes":4`, `"weight_bytes":3`), `weight_bytes: 3 is not 2 or 4`},
		{compute(`"weight_bytes":4,`, ``), `weight_bytes: missing`},
		{compute(`"weight_bytes":4`, `"weight_bytes":4,"index_bytes":0`), `index_bytes: 0 is not 4 or 8`},
		{compute(`"sgd"`, `"lamb"`), `optimizer "lamb" is unknown`},
		{compute(`"sgd"`, `7`), `optimizer: a number is not a string`},
		{compute(`"optimizer":`, `"lane_rule":"narrowest","optimizer":`), `lane rule "narrowest" is unknown`},
		{compute(`"optimizer":`, `"launch_mode":"later","optimizer":`), `launch_mode "later" is unknown: choose graph or eager`},
		{compute(`"pooling_factor":3`, `"pooling_factor":3,"length_cv":-1`), `tables[0].length_cv: -1 is not between 0 and 1000`},
		{compute(`"optimizer":`, `"pooling":"most","optimizer":`), `pooling "most" is unknown`},
		{compute(`"optimizer":`, `"pooling":7,"optimizer":`), `pooling: a number is not a string`},
		{compute(`"optimizer":`, `"pooling":"none","weighted":true,"optimizer":`), `weighted: lookups with the pooling none carry no weights`},
		{strings.Replace(compute(`"optimizer":`, `"pooling":"none","optimizer":`), `"pooling_factor":3`, `"pooling_factor":3,"length_cv":1`, 1), `tables[0].length_cv: the lengths of bags have no meaning with the pooling none`},
		{compute(`"pooling_factor":3`, `"pooling_factor":3,"pooling":"none"`), `tables[0].pooling: it is a member of the case`},
		{compute(`"rows":1000`, `"rows":-1`), `tables[0].rows: -1 is not between`},
		{compute(`"rows":1000`, `"rows":1e30`), `tables[0].rows: 1e+30 is not between`},
		{compute(`"dim":8`, `"dim":0`), `tables[0].dim: 0 is not between`},
		{compute(`"dim":8`, `"dim":8,"features":0`), `tables[0].features: 0 is not between`},
		{compute(`"pooling_factor":3`, `"pooling_factor":-3`), `tables[0].pooling_factor: -3 is not between`},
		{compute(`"pooling_factor":3`, `"pooling_factor":1e999`), `tables[0].pooling_factor: "1e999" is not a finite number`},
		{compute(`"pooling_factor":3,`, ``), `tables[0].pooling_factor: missing`},
		{compute(`"pooling_factor":3`, `"pooling_factor":null`), `tables[0].pooling_factor: missing`},
		{compute(`"reuse":null`, `"reuse":[1]`), `tables[0].reuse: 1 shares: give 17`},
		{compute(`"reuse":null`, `"reuse":[-1,2,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]`), `tables[0].reuse[0]: -1 is not between`},
		{compute(`"reuse":null`, `"reuse":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]`), `tables[0].reuse: the shares add up to 0, not 1`},
		{compute(`"reuse":null`, `"unique_rows":-1,"reuse":[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]`), `tables[0].unique_rows: -1 is not between`},
		{compute(`"tables":[`, `"notables":[`), `tables: missing`},
		{compute(`"tables":[`, `"tables":[`+strings.Repeat(`{},`, problem.MaxTables)), `tables: there are more than 1048576 elements`},
		{comm(`[8,16]`, `[8`+strings.Repeat(`,0`, hardware.MaxDevices)+`]`), `dim_sums: there are more than 65536 elements`},
		{compute(`"id":1,`, ``), `compute[0]: id: give a number or a string`},
		{compute(`"id":1`, `"id":[1]`), `compute[0]: id: give a number or a string`},
		{`{"compute":[3]}`, `compute[0]: a number is not an object`},
		{comm(`"ranks":2`, `"ranks":3`), `comm[0]: dim_sums: 2 values for 3 ranks`},
		{comm(`[0,1.5]`, `[0]`), `comm[0]: start_ms: 1 values for 2 ranks`},
		{comm(`[0,1.5]`, `[0,-1]`), `start_ms[1]: -1 is not between`},
		{comm(`[0,1.5]`, `[null,1]`), `start_ms[0]: missing`},
		{comm(`[8,16]`, `[8,-16]`), `dim_sums[1]: -16 is not between`},
		{comm(`"ranks_per_node":2`, `"ranks_per_node":-2`), `ranks_per_node: -2 is not between`},
		{comm(`"global_batch":512`, `"global_batch":-512`), `global_batch: -512 is not between`},
		{strings.Replace(comm(`"ranks_per_node":2`, `"ranks_per_node":1`), `a100-80`, `rtx2080ti`, 1), `profile "rtx2080ti" has no network`},
		{`{}`, `give one JSON object of the form`},
		{`[]`, `a list is not an object`},
		{`{"compute":{}}`, `compute: an object is not a list`},
		{`{"compute":[]} {}`, `after top-level value`},
		{comm(`[8,16]`, `[null,16]`), `comm[0]: dim_sums[0]: missing`},
		{compute(`"reuse":null`, `"reuse":[1`+strings.Repeat(`,null`, 16)+`]`), `tables[0].reuse[1]: missing`},
		{``, `unexpected EOF`},
		{`{"compute":[` + goodCompute[:60], `unexpected EOF`},
		{`{"compute":[]`, `unexpected EOF`},
		{compute(`"pooling_factor":3`, `"pooling_factor":NaN`), `invalid character 'N'`},
	} {
		var out bytes.Buffer
		err := RunCases(strings.NewReader(test.in), &out)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want one with %q", test.in, err, test.want)
		}
		if out.Len() > 0 {
			t.Errorf("%s: got output %s, want none", test.in, out.String())
		}
	}
}

// spaces is a reader of spaces for ever.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// An input without an end is refused at the limit.
func TestTooLongInput(t *testing.T) {
	err := RunCases(io.MultiReader(strings.NewReader(`{"compute":[]}`), spaces{}), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "longer than 100000000 bytes") {
		t.Errorf("an endless input: got %v, want an error naming the limit", err)
	}
}

func TestReadAndWriteErrors(t *testing.T) {
	broken := errors.New("broken")
	if err := RunCases(io.MultiReader(strings.NewReader(`{"comm":[`), failing{broken}), io.Discard); !errors.Is(err, broken) {
		t.Errorf("a failing input: got %v, want %v", err, broken)
	}
	if err := RunCases(strings.NewReader(`{"comm":[`+goodComm+`]}`), failing{broken}); !errors.Is(err, broken) {
		t.Errorf("a failing output: got %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzRunCases(f *testing.F) {
	f.Add(`{"compute":[` + goodCompute + `],"comm":[` + goodComm + `]}`)
	f.Add(`{"note":1,"comm":null}`)
	f.Add(`{"compute":[{"id":1e9,"profile":"b200","batch":1e3,"weight_bytes":2,"optimizer":"adam","weighted":true,"lane_rule":"own","launch_mode":"eager","tables":[{"rows":5e9,"dim":128,"pooling_factor":0.5,"length_cv":1.5,"features":2,"unique_rows":7,"reuse":[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}]}`)
	f.Add(`{"compute":[{}],"comm":[{"id":"`)
	f.Fuzz(func(t *testing.T, in string) {
		var out, again bytes.Buffer
		err := RunCases(strings.NewReader(in), &out)
		if err != nil {
			if out.Len() > 0 || err.Error() == "" {
				t.Fatalf("got the error %q and the output %q, want one of them", err, out.String())
			}
			return
		}
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["source"] != Source {
			t.Fatalf("output %s: got %v, want JSON labelled simulated", out.String(), err)
		}
		if err := RunCases(strings.NewReader(in), &again); err != nil || again.String() != out.String() {
			t.Fatalf("run again: got %q, %v, want %q", again.String(), err, out.String())
		}
	})
}

// TestDocumentedExample runs the input that docs/SIMULATED.md shows and expects
// the output that it shows.
func TestDocumentedExample(t *testing.T) {
	text, err := os.ReadFile("../docs/SIMULATED.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for i, part := range strings.Split(string(text), "```") {
		if part = strings.TrimSpace(part); i%2 == 1 && strings.HasPrefix(part, "{") {
			blocks = append(blocks, part)
		}
	}
	if len(blocks) != 2 {
		t.Fatalf("got %d JSON blocks in docs/SIMULATED.md, want an input and an output", len(blocks))
	}
	var out, want bytes.Buffer
	if err := RunCases(strings.NewReader(blocks[0]), &out); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&want, []byte(blocks[1])); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(out.String()); got != want.String() {
		t.Errorf("got %s, want %s", got, want.String())
	}
}
