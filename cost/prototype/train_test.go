package prototype_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/neuroshard/neuroshard/cost/prototype"
)

// poolTables is the size of the prototype's pool.
const poolTables = 856

func computeSamples(t testing.TB) []prototype.ComputeSample {
	t.Helper()
	samples, err := prototype.ReadComputeSamples("compute.txt.gz", open(t, "cost_data", "compute.txt.gz"), poolTables)
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

func commSamples(t testing.TB) []prototype.CommSample {
	t.Helper()
	samples, err := prototype.ReadCommSamples("comm_4.txt.gz", open(t, "cost_data", "comm_4.txt.gz"), 4)
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

// The inputs are scaled as the prototype scaled them: its nets say how.
func TestTrainScaling(t *testing.T) {
	ctx, once := context.Background(), prototype.TrainOptions{Epochs: 1}
	tables, published := pool(t), models(t, ".pt")
	compute, _, err := prototype.TrainCompute(ctx, tables, computeSamples(t)[:100], once)
	if err != nil {
		t.Fatal(err)
	}
	forward, _, err := prototype.TrainForward(ctx, commSamples(t), once)
	if err != nil {
		t.Fatal(err)
	}
	backward, _, err := prototype.TrainBackward(ctx, commSamples(t), once)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		got, want prototype.Scaling
	}{
		{"compute", compute.Scaling, published.Compute.Scaling},
		{"forward", forward.Scaling, published.Forward.Scaling},
		{"backward", backward.Scaling, published.Backward.Scaling},
	} {
		for i := range c.want.Means {
			got, want := [2]float32{c.got.Means[i], c.got.Stds[i]}, [2]float32{c.want.Means[i], c.want.Stds[i]}
			for k := range got {
				if math.Abs(float64(got[k]-want[k])) > 1e-4*(1e-3+math.Abs(float64(want[k]))) {
					t.Errorf("%s, input %d: got mean and deviation %v, want %v", c.name, i, got, want)
				}
			}
		}
	}
	for _, c := range []struct{ got, want []prototype.Layer }{
		{append(compute.Table, compute.Head[:]...), append(published.Compute.Table, published.Compute.Head[:]...)},
		{forward.Layers, published.Forward.Layers},
		{backward.Layers, published.Backward.Layers},
	} {
		if len(c.got) != len(c.want) {
			t.Fatalf("got %d layers, want %d", len(c.got), len(c.want))
		}
		for i := range c.want {
			if c.got[i].In != c.want[i].In || c.got[i].Out != c.want[i].Out {
				t.Errorf("layer %d: got %d x %d, want %d x %d", i, c.got[i].Out, c.got[i].In, c.want[i].Out, c.want[i].In)
			}
		}
	}
}

// A short training reaches most of the accuracy, the net that is returned is
// the one that was tested, and neither workers nor progress change it.
func TestTrainCompute(t *testing.T) {
	tables, samples := pool(t), computeSamples(t)[:4000]
	opt := prototype.TrainOptions{Epochs: 12, Batch: 64, Seed: 3, Now: time.Now}
	net, report, err := prototype.TrainCompute(context.Background(), tables, samples, opt)
	if err != nil {
		t.Fatal(err)
	}
	mean, variance, square := 0.0, 0.0, 0.0
	for _, s := range samples {
		mean += s.Millis / float64(len(samples))
	}
	for _, s := range samples {
		var held []prototype.Vector
		for _, slice := range s.Slices {
			held = append(held, prototype.VectorOf(&tables[slice.Table], slice.Dim))
		}
		variance += (s.Millis - mean) * (s.Millis - mean) / float64(len(samples))
		square += math.Pow(net.Predict(held)-s.Millis, 2) / float64(len(samples))
	}
	if square > variance/10 || report.TestMSE > variance/10 || report.MeanRelativeError > .25 {
		t.Errorf("got a mean squared error of %v over all samples and %v on the test's (%v relative), want them below a tenth of the variance, %v", square, report.TestMSE, report.MeanRelativeError, variance)
	}
	if r := square / report.TestMSE; !(r > .5 && r < 1.5) {
		t.Errorf("the net's error over all samples is %v, on the test's %v: got a ratio of %v, want about 1", square, report.TestMSE, r)
	}
	if report.SamplesPerSecond <= 0 || report.BestEpoch < 1 || report.BestEpoch > 12 {
		t.Errorf("got report %+v, want a speed and a best epoch of 1 to 12", report)
	}

	var seen []prototype.TrainProgress
	opt.Workers, opt.Now = 3, nil
	opt.OnProgress = func(p prototype.TrainProgress) { seen = append(seen, p) }
	again, second, err := prototype.TrainCompute(context.Background(), tables, samples, opt)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, net) || second.TestMSE != report.TestMSE || second.SamplesPerSecond != 0 {
		t.Errorf("3 workers: got another net than 1 worker, report %+v, want %+v without a speed", second, report)
	}
	if len(seen) != 12 || seen[11].Epoch != 12 || seen[11].TrainMSE >= seen[0].TrainMSE || seen[second.BestEpoch-1].ValidationMSE != second.ValidationMSE {
		t.Errorf("got progress %+v, want 12 epochs that learn, the best with the report's error %v", seen, second.ValidationMSE)
	}
	opt.Seed++
	if other, _, err := prototype.TrainCompute(context.Background(), tables, samples, opt); err != nil || reflect.DeepEqual(other, net) {
		t.Errorf("another seed: got %v and the same net, want another one", err)
	}
}

func TestTrainComm(t *testing.T) {
	samples := commSamples(t)[:4000]
	for _, c := range []struct {
		name  string
		train func(context.Context, []prototype.CommSample, prototype.TrainOptions) (*prototype.CommNet, prototype.TrainReport, error)
		times func(s *prototype.CommSample) []float64
	}{
		{"forward", prototype.TrainForward, func(s *prototype.CommSample) []float64 { return s.Forward }},
		{"backward", prototype.TrainBackward, func(s *prototype.CommSample) []float64 { return s.Backward }},
	} {
		opt := prototype.TrainOptions{Epochs: 12, Batch: 64, Seed: 5, Schedule: prototype.OneCycle}
		net, report, err := c.train(context.Background(), samples, opt)
		if err != nil {
			t.Fatal(err)
		}
		mean, variance, square := 0.0, 0.0, 0.0
		n := float64(4 * len(samples))
		for i := range samples {
			for _, v := range c.times(&samples[i]) {
				mean += v / n
			}
		}
		for i := range samples {
			dims := make([]float64, 4)
			for d := range dims {
				dims[d] = float64(samples[i].Dims[d])
			}
			got := net.Predict(dims, samples[i].Starts)
			for d, v := range c.times(&samples[i]) {
				variance += (v - mean) * (v - mean) / n
				square += (v - got[d]) * (v - got[d]) / n
			}
		}
		if square > variance/10 || report.TestMSE > variance/10 || report.MeanRelativeError > .25 {
			t.Errorf("%s: got a mean squared error of %v over all samples and %v on the test's (%v relative), want them below a tenth of the variance, %v", c.name, square, report.TestMSE, report.MeanRelativeError, variance)
		}
		opt.Workers = 2
		if again, _, err := c.train(context.Background(), samples, opt); err != nil || !reflect.DeepEqual(again, net) {
			t.Errorf("%s, 2 workers: got %v and another net, want the same", c.name, err)
		}
	}
}

func TestTrainRefuses(t *testing.T) {
	tables, compute, comm := pool(t), computeSamples(t)[:20], commSamples(t)[:20]
	ctx := context.Background()
	check := func(what string, err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: got %v, want %q in it", what, err, w)
			}
		}
	}
	_, _, err := prototype.TrainCompute(ctx, tables, compute[:3], prototype.TrainOptions{Epochs: -1, Batch: -2, Workers: -3, Schedule: 7})
	check("options", err, "schedule 7", "-1 epochs", "batches of -2", "-3 workers", "3 samples: at least 10")
	bad := append([]prototype.ComputeSample(nil), compute...)
	bad[1] = prototype.ComputeSample{Slices: []prototype.Slice{{Table: 856, Dim: 4}, {Table: 0, Dim: 0}}, Millis: math.NaN()}
	_, _, err = prototype.TrainCompute(ctx, tables, bad, prototype.TrainOptions{})
	check("compute", err, "sample 1: table 856 of a pool of 856", "dim 0", "NaN")

	_, _, err = prototype.TrainForward(ctx, nil, prototype.TrainOptions{})
	check("no samples", err, "0 samples")
	mixed := append([]prototype.CommSample(nil), comm...)
	mixed[2] = prototype.CommSample{Dims: []int{-1}, Starts: []float64{1}, Forward: []float64{1}, Backward: []float64{math.Inf(1)}}
	_, _, err = prototype.TrainBackward(ctx, mixed, prototype.TrainOptions{})
	check("comm", err, "sample 2: 1 dim sums", "+Inf", "dim sum -1")

	canceled, cancel := context.WithCancel(ctx)
	opt := prototype.TrainOptions{OnProgress: func(prototype.TrainProgress) { cancel() }}
	if _, _, err := prototype.TrainCompute(canceled, tables, compute, opt); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v, want %v", err, context.Canceled)
	}

	huge := append([]prototype.ComputeSample(nil), compute...)
	for i := range huge {
		huge[i].Millis = 3.6e6 // as far as times go: it must neither diverge nor stop
	}
	if _, _, err := prototype.TrainCompute(ctx, tables, huge, prototype.TrainOptions{Epochs: 2}); err != nil {
		t.Errorf("times of an hour: got %v, want no error", err)
	}
}

// Training the paper's compute net as it was, batch 512: the samples learned in
// a second, in the last epoch and in the best one, as other programs may share
// the machine.
func BenchmarkTrainCompute(b *testing.B) {
	tables, samples := pool(b), computeSamples(b)
	for _, workers := range []int{1, 2} {
		b.Run(map[int]string{1: "workers=1", 2: "workers=2"}[workers], func(b *testing.B) {
			var report prototype.TrainReport
			best := 0.0
			for b.Loop() {
				var err error
				opt := prototype.TrainOptions{Epochs: 1, Seed: 1, Workers: workers, Now: time.Now}
				if _, report, err = prototype.TrainCompute(context.Background(), tables, samples, opt); err != nil {
					b.Fatal(err)
				}
				best = max(best, report.SamplesPerSecond)
			}
			var sum, square float64
			for _, s := range samples {
				sum += s.Millis
				square += s.Millis * s.Millis
			}
			n := float64(len(samples))
			if variance := square/n - sum*sum/n/n; !(report.TestMSE < variance) {
				b.Fatalf("got a test MSE of %v, want less than the variance, %v: the net did not learn", report.TestMSE, variance)
			}
			b.ReportMetric(report.SamplesPerSecond, "samples/s")
			b.ReportMetric(best, "best-samples/s")
			b.ReportMetric(report.TestMSE, "test-MSE")
		})
	}
}

func BenchmarkTrainComm(b *testing.B) {
	samples := commSamples(b)
	for b.Loop() {
		opt := prototype.TrainOptions{Epochs: 4, Seed: 1, Now: time.Now}
		_, report, err := prototype.TrainForward(context.Background(), samples, opt)
		if err != nil {
			b.Fatal(err)
		}
		if !(report.TestMSE < 18) {
			b.Fatalf("got a test MSE of %v, want less than 18: the net did not learn", report.TestMSE)
		}
		b.ReportMetric(report.SamplesPerSecond, "samples/s")
	}
}
