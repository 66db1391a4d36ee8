// Command watch measures the detectors of lab/watch for docs/evidence/WATCH.md: how soon they find
// changes of known size in streams that it makes, how often they find what is not there, and
// how they score on the labelled series of the Numenta Anomaly Benchmark.
//
//	go run ./docs/generate/watch -write                   the tables of the streams, into the document
//	git clone https://github.com/numenta/NAB
//	go run ./docs/generate/watch -nab NAB -write          the scores, too
//
// Without -write the tables go to standard output. The streams have fixed seeds.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/neuroshard/neuroshard/internal/marks"
)

const document = "docs/evidence/WATCH.md"

func main() {
	folder := flag.String("nab", "", "a copy of github.com/numenta/NAB, to score its series instead")
	write := flag.Bool("write", false, "write the tables into "+document)
	flag.Parse()
	if err := run(os.Stdout, *folder, *write); err != nil {
		fmt.Fprintln(os.Stderr, "watch: error:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, folder string, write bool) error {
	parts := map[string][]string{}
	if folder == "" {
		of := effort{alarms: 5, alarmSteps: 500_000, delays: 40}
		parts["streams"] = []string{table(of)}
		parts["seasons"] = []string{seasons(of)}
	} else {
		nab := os.DirFS(folder)
		all, err := readNAB(nab)
		if err != nil {
			return err
		}
		parts["nab"] = []string{scoreNAB(all, append(detectors, stored(nab, "twitterADVec"), stored(nab, "windowedGaussian")))}
	}
	for _, name := range []string{"streams", "seasons", "nab"} {
		switch part := parts[name]; {
		case part == nil:
		case write:
			if err := marks.Replace(document, name, part); err != nil {
				return err
			}
		default:
			fmt.Fprintf(w, "%s\n\n", part[0])
		}
	}
	return nil
}
