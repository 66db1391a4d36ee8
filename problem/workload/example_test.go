package workload_test

import (
	"fmt"

	"github.com/neuroshard/neuroshard/problem/workload"
)

func ExampleByName() {
	w, err := workload.ByName("workload:mlperf-dlrm-dcnv2")
	if err != nil {
		panic(err)
	}
	sum := w.Totals()
	fmt.Printf("%d tables, %v of weights, %v lookups a sample\n", sum.Tables, sum.Weights, sum.LookupsPerSample)
	fmt.Printf("%d x %s, batch %d, %v\n", w.Cluster.Devices, w.Cluster.Profile.Name, w.Batch, w.Optimizer)
	fmt.Printf("indices: %s, assumed: %v\n", w.IndexDistribution, w.AssumedDistribution)

	_, err = workload.ByName("hugectr-70")
	fmt.Println(err)
	// Output:
	// 26 tables, 97.4 GiB of weights, 214 lookups a sample
	// 8 x a100-80, batch 65536, adagrad
	// indices: Criteo 1TB multi-hot (not stated as Zipf), assumed: true
	// workload "hugectr-70" is unknown: did you mean "hugectr-7" or "hugectr-180" or "hugectr-510"?
}

func ExampleWorkload_Problem() {
	w, err := workload.ByName("nvidia-synthetic-tiny")
	if err != nil {
		panic(err)
	}
	p := w.Problem()
	t := p.Tables[0]
	fmt.Println(t.Name, t.Rows, t.Dim)
	for _, f := range t.Features {
		fmt.Println(f.Name, f.PoolingFactor, f.LengthCV)
	}
	// Output:
	// t000 10000 8
	// f000 1 0
	// f001 10 0
}

func ExamplePool() {
	tables := workload.Pool(1)
	fmt.Println(len(tables), tables[0].Name, tables[0].Rows, tables[0].Dim)
	// Output:
	// 856 p000 1152240 16
}

func ExampleDraw() {
	pool := workload.Pool(1)
	for _, spec := range workload.PaperSettings() {
		task, err := workload.Draw(pool, spec, 1, 0)
		if err != nil {
			panic(err)
		}
		fmt.Println(task.Name, task.Devices, task.Memory, spec.MinTables <= len(task.Tables) && len(task.Tables) < spec.MaxTables)
	}
	// Output:
	// d4_m16/0 4 4.00 GiB true
	// d4_m64/0 4 4.00 GiB true
	// d4_m128/0 4 4.00 GiB true
	// d8_m16/0 8 4.00 GiB true
	// d8_m64/0 8 4.00 GiB true
	// d8_m128/0 8 4.00 GiB true
}
