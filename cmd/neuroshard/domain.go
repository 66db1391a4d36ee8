package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/neuroshard/neuroshard/internal/manual"
	"github.com/neuroshard/neuroshard/lab/design"
	"github.com/neuroshard/neuroshard/problem"
	"github.com/neuroshard/neuroshard/unit"
)

// domainFlags bound what collect draws.
type domainFlags struct {
	flags         *pflag.FlagSet
	tables, trace string
	paper         bool
	// set holds, by the name of a flag, what sets its field of a domain.
	set map[string]func(*design.Domain) error
}

func (d *domainFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	defer manual.Section(f, drawsSection)()
	d.flags, d.set = f, map[string]func(*design.Domain) error{}
	f.StringVar(&d.tables, "tables", "", "draw groups over the tables of this `file` instead of random ones")
	f.StringVar(&d.trace, "trace", "", "draw groups over the tables of this `file` of real lookups, and run those lookups")
	f.BoolVar(&d.paper, "paper", false, "draw as the NeuroShard paper does, so that lab dataset export can write the samples")

	var (
		batches, devices   intList
		maxBytes           size
		optimizers, precis []string
	)
	f.Var(&batches, "batch", "global batches to draw, separated by commas")
	f.Var(&devices, "comm-devices", "numbers of devices of an all-to-all")
	f.Var(&maxBytes, "max-group", "most weights and optimizer state of a group")
	f.StringSliceVar(&optimizers, "optimizers", nil, "optimizers to draw: sgd, rowwise_adagrad, adagrad, adam")
	f.StringSliceVar(&precis, "precisions", nil, "precisions to draw: fp32, fp16, bf16")
	d.set["batch"] = func(to *design.Domain) error { to.Batches = batches; return nil }
	d.set["comm-devices"] = func(to *design.Domain) error { to.Devices = devices; return nil }
	d.set["max-group"] = func(to *design.Domain) error { to.MaxBytes = unit.Bytes(maxBytes); return nil }
	d.set["optimizers"] = func(to *design.Domain) (err error) {
		to.Optimizers, err = parseAll("optimizers", optimizers, problem.ParseOptimizer)
		return err
	}
	d.set["precisions"] = func(to *design.Domain) (err error) {
		to.Precisions, err = parseAll("precisions", precis, problem.ParsePrecision)
		return err
	}
	field(d, f.IntVar, "min-shards", "fewest shards of a group", func(to *design.Domain) *int { return &to.MinShards })
	field(d, f.IntVar, "max-shards", "most shards of a group", func(to *design.Domain) *int { return &to.MaxShards })
	field(d, f.IntVar, "max-dim", "most columns of a shard", func(to *design.Domain) *int { return &to.MaxDim })
	field(d, f.Int64Var, "min-rows", "fewest rows of a random table", func(to *design.Domain) *int64 { return &to.MinRows })
	field(d, f.Int64Var, "max-rows", "most rows of a random table", func(to *design.Domain) *int64 { return &to.MaxRows })
	field(d, f.Float64Var, "max-pooling-factor", "largest pooling factor of a random table", func(to *design.Domain) *float64 { return &to.MaxPoolingFactor })
	field(d, f.Float64Var, "weighted-share", "`share` of weighted groups", func(to *design.Domain) *float64 { return &to.WeightedShare })
	field(d, f.Float64Var, "max-lookup-bytes", "most `bytes` that a group looks up in a batch, which bounds the time of a sample", func(to *design.Domain) *float64 { return &to.MaxLookupBytes })
}

// field adds a flag that sets one field of the domain.
func field[T any](d *domainFlags, register func(to *T, name string, otherwise T, usage string), name, usage string, of func(*design.Domain) *T) {
	value := new(T)
	register(value, name, *value, usage)
	d.set[name] = func(to *design.Domain) error {
		*of(to) = *value
		return nil
	}
}

// parseAll parses the names that a flag lists.
func parseAll[T any](flag string, names []string, parse func(string) (T, error)) ([]T, error) {
	all := make([]T, len(names))
	for i, name := range names {
		var err error
		if all[i], err = parse(name); err != nil {
			return nil, usagef("", "%s: %w", flag, err)
		}
	}
	return all, nil
}

// domain returns the domain of the backend with what the flags change. real is nil
// without --trace.
func (d *domainFlags) domain(a *app, backend string, real *tracedTables) (design.Domain, error) {
	var domain design.Domain
	switch {
	case d.paper:
		domain = design.Paper()
	case backend == backendCPU:
		domain = design.CPU()
	}
	var errs []error
	d.flags.Visit(func(f *pflag.Flag) {
		if set := d.set[strings.ReplaceAll(f.Name, "_", "-")]; set != nil {
			errs = append(errs, set(&domain))
		}
	})
	if err := errors.Join(errs...); err != nil {
		return domain, err
	}
	if d.tables != "" {
		file, _, err := readTables(a, d.tables, &clusterFlags{set: d.flags})
		if err != nil {
			return domain, err
		}
		domain.Tables = file.Tables
	}
	if real != nil {
		if err := d.within(real, &domain); err != nil {
			return domain, err
		}
	}
	if problems := domain.Problems(); len(problems) > 0 {
		return domain, usagef("", "collect: %s", strings.Join(problems, "; "))
	}
	return domain, nil
}

// within has the domain draw over the tables of a trace, whose batches cannot be larger
// than the trace.
func (d *domainFlags) within(real *tracedTables, domain *design.Domain) error {
	domain.Tables = real.tables
	if !d.flags.Changed("batch") {
		domain.Batches = slices.DeleteFunc(slices.Clone(domain.Batches), func(b int) bool { return b > real.samples })
	}
	if len(domain.Batches) == 0 {
		domain.Batches = []int{real.samples}
	}
	if most := slices.Max(domain.Batches); most > real.samples {
		return usagef("name smaller batches", "collect: --batch %d is above the %d samples of the trace", most, real.samples)
	}
	return nil
}
